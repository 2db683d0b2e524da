"""How the patches of an image come to shared memory that implicit matrix products multiply.

Through registers, scaled by a power of two and as high and low parts where they are to be; or, where matrix
units take the image's numbers as they are, by copies beside the computation, one patch ahead.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from math import prod

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.pipelines.emission.control_flow import when
from iree.winograd.pipelines.emission.index import Condition, Index, unflatten
from iree.winograd.pipelines.emission.sized_shape import SizedShape
from iree.winograd.pipelines.emission.vectors import broadcast
from iree.winograd.pipelines.emission.work import Sizes
from iree.winograd.pipelines.gpu.device.matrix_unit import WARP_THREADS
from iree.winograd.pipelines.gpu.device.memory import QUAD, GlobalBuffer, constant_quad
from iree.winograd.pipelines.gpu.device.shuffles import over_threads
from iree.winograd.pipelines.gpu.device.warpgroup import (
    WARPGROUP_THREADS,
    SharedBytes,
    commit_copies,
    publish,
    wait_for_copies,
    warpgroup_barrier,
)
from iree.winograd.pipelines.gpu.kernels.matrix_products.splitting import (
    finite_magnitude,
    integer_type,
    largest_of,
    largest_of_quad,
    parts_of,
    scales_for,
)
from iree.winograd.pipelines.gpu.kernels.matrix_products.warpgroup_results import WARPS
from iree.winograd.pipelines.gpu.packing.implicit_gemm import ImplicitGemmPacking
from iree.winograd.pipelines.gpu.packing.split import SPLIT
from iree.winograd.pipelines.gpu.schedules.implicit_gemm import WARP_MAXIMA_BYTES, ImplicitGemmSchedule
from iree.winograd.pipelines.gpu.schedules.matrix import HALF_BYTES
from iree.winograd.pipelines.gpu.schedules.patch import CELL

_INTEGER_BYTES = 4


@dataclass(frozen=True)
class ScaledSums:
    """A thread's sums one by one, of large products and of small ones, and what they are to be scaled by."""

    scalars: list[list[ir.Value]]
    """Empty before there are any."""
    largest: ir.Value | None
    """The magnitude that the scale is for; None before there are any, and where nothing is scaled."""

    @staticmethod
    def none() -> ScaledSums:
        return ScaledSums([], None)

    @property
    def scale(self) -> ir.Value:
        """What a quad of them is to be multiplied by for the image's scale."""
        if self.largest is None:
            return constant_quad(1.0, SPLIT.type)
        scale, _ = scales_for(self.largest, 0)
        return broadcast(scale, QUAD)


@dataclass(frozen=True)
class Position:
    """A block of channels of a tile that a warpgroup walks to."""

    tile: Index
    walked: Index
    """The warpgroup's tiles before it."""
    block: int

    def following(self, schedule: ImplicitGemmSchedule) -> Position:
        """What the warpgroup has after it, which may be behind the last tile."""
        if self.block + 1 < schedule.channel_blocks:
            return Position(self.tile, self.walked, self.block + 1)
        return Position(self.tile + schedule.tile_step, self.walked + 1, 0)


class Patches(ABC):
    """Those of one warpgroup's tiles, of one block of channels after the other."""

    def __init__(
        self,
        packing: ImplicitGemmPacking,
        sizes: Sizes,
        image: GlobalBuffer,
        shared: SharedBytes,
        warpgroup: Index,
        thread: Index,
    ) -> None:
        self._packing, self._patch, self._schedule = packing, packing.patch, packing.schedule
        self._image, self._shared = image, shared
        self._warpgroup, self._thread = warpgroup, thread
        self._sized = SizedShape.of(packing.shape, sizes)
        self._input_plane = packing.patch.plane(self._sized.input_size)
        self._tiles = packing.tile_count(sizes)
        self._begin = warpgroup * (packing.patch.slots * packing.patch.bytes) + packing.patches_begin

    @abstractmethod
    def begin_ahead(self, position: Position) -> None:
        """Begins to bring what is multiplied next but for this, as far as there is room for it already."""

    @abstractmethod
    def begin(self, position: Position) -> None:
        """Begins to bring what is multiplied next, if it isn't under way."""

    @abstractmethod
    def end(self, sums: ScaledSums) -> ScaledSums:
        """Waits until that is there, of all threads; gives the sums before it for its scale."""

    @abstractmethod
    def place(self, position: Position) -> Index:
        """Where it lies in shared memory."""

    def origin(self, tile: Index) -> tuple[Index, Index, Index]:
        """The image of a tile, and the first of its outputs."""
        down, across = self._patch.tiles_per_image(self._sized.output_size)
        rows, columns = self._patch.tile
        if self._sized.is_one_image and down.known == 1:
            image, row, column = Index(0), Index(0), tile
        elif self._sized.is_one_image:
            image, (row, column) = Index(0), unflatten(tile, (down, across))
        else:
            image, row, column = unflatten(tile, (1, down, across))
        return image, row * rows, column * columns

    def _own(self, units: int) -> list[tuple[Index, Index, Index]]:
        """Row, column and unit of channels of what this thread brings of a patch whose pixels have so many.

        The threads of a pixel, and those beside it, go from row to row, whose numbers are known; what is left
        of the columns is theirs as it comes, the last units several times. Neighbouring threads have what is
        neighbours in memory: units of channels or, with these first, columns.
        """
        channels_first = self._packing.shape.input_channels_first
        rows, columns = self._patch.extents
        pixels = WARPGROUP_THREADS // units
        whole = self._patch.whole_columns(units)
        pixel, unit = self._thread // units, self._thread % units
        if channels_first and whole:
            pixel, unit = self._thread % pixels, self._thread // pixels
        own = [
            (Index(row), pixel + first, unit) for row in range(rows) for first in range(0, whole, pixels or 1)
        ]
        left = (rows, columns - whole, units)
        for first in range(0, prod(left), WARPGROUP_THREADS):
            number = (self._thread + first).minimum(prod(left) - 1)
            if channels_first:
                unit, row, column = unflatten(number, (units, rows, columns - whole))
            else:
                row, column, unit = unflatten(number, left)
            own.append((row, column + whole, unit))
        return own

    def _pixel(self, tile: Index, row: Index, column: Index) -> tuple[list[Index], Condition]:
        """The image and the position in it of a pixel of a tile's patch, and whether there is such."""
        shape = self._packing.shape
        image, *first = self.origin(tile)
        position = [
            at * stride - low + within
            for at, stride, low, within in zip(
                first, shape.strides, shape.padding_low, (row, column), strict=True
            )
        ]
        exists = Condition(True)
        for at, size in zip(position, self._input_plane, strict=True):
            exists = exists & at.within(size)
        return [image, *position], exists


class LoadedPatches(Patches):
    """A block of channels waits in registers while the one before it, of the same tile, is multiplied."""

    _loaded: Sequence[ir.Value] = ()

    def begin_ahead(self, position: Position) -> None:
        if position.block > 0:
            self._loaded = self._load(position)

    def begin(self, position: Position) -> None:
        if position.block == 0:
            self._loaded = self._load(position)

    def place(self, position: Position) -> Index:
        del position
        return self._begin

    def end(self, sums: ScaledSums) -> ScaledSums:
        if self._patch.holds_image:
            # All threads are done with the patch before.
            warpgroup_barrier(self._warpgroup)
            self._store(self._loaded)
            return sums
        largest = self._largest(self._loaded)
        if sums.largest is not None:
            # The scale is no less than before.
            largest = arith.maxui(largest, sums.largest)
        _, inverse = scales_for(largest, 0)
        factor = broadcast(inverse, QUAD)
        self._store([arith.mulf(value, factor) for value in self._loaded])
        if sums.largest is None:
            return ScaledSums(sums.scalars, largest)
        before, _ = scales_for(sums.largest, 0)
        ratio = arith.mulf(before, inverse)
        return ScaledSums([[arith.mulf(each, ratio) for each in part] for part in sums.scalars], largest)

    def _load(self, position: Position) -> list[ir.Value]:
        """This thread's quads of a patch; zeros where the convolution pads."""
        quads = []
        for row, column, quad in self._own(self._patch.channel_quads):
            (image, *at), exists = self._pixel(position.tile, row, column)
            if self._patch.is_pointwise and self._packing.shape.unknown_sizes:
                # Of pixels behind the last one there are no results: any other will do.
                exists = Condition(True)
            inside = [each.moved_into(size) for each, size in zip(at, self._input_plane, strict=True)]
            channel = (quad + position.block * self._patch.channel_quads) * QUAD
            remaining = Index(self._packing.group_channels) - channel
            if self._patch.channels - self._packing.group_channels >= QUAD:
                exists = exists & Index(0).less_than(remaining)
                channel = channel.minimum(self._packing.group_channels - 1) // QUAD * QUAD
            offset = self._image.pixel_offset([image, *inside], channel)
            quads.append(self._image.load_first(offset, remaining, exists))
        return quads

    def _store(self, scaled: Sequence[ir.Value]) -> None:
        """Leaves this thread's quads in shared memory; then those of all are there."""
        for value, own in zip(scaled, self._own(self._patch.channel_quads), strict=True):
            parts = parts_of(value, self._schedule)
            for place, (number, part) in product(self._patch.places(*own), enumerate(parts)):
                self._shared.store(part, place + self._begin + number * self._patch.part_bytes)
        publish()
        warpgroup_barrier(self._warpgroup)

    def _largest(self, loaded: Sequence[ir.Value]) -> ir.Value:
        """The largest magnitude of a patch, of all threads of the warpgroup; infinities don't count.

        When it is known, all of them are done with the patch before.
        """
        own = largest_of_quad(largest_of([finite_magnitude(quad) for quad in loaded]))
        found = over_threads(own, WARP_THREADS, arith.maxui)
        maxima = self._warpgroup * WARP_MAXIMA_BYTES + self._packing.maxima_begin
        warp = self._thread // WARP_THREADS
        self._shared.store(found, maxima + warp * _INTEGER_BYTES)
        warpgroup_barrier(self._warpgroup)
        return reduce(
            arith.maxui,
            [self._shared.load(integer_type(), maxima + number * _INTEGER_BYTES) for number in range(WARPS)],
        )


class CopiedPatches(Patches):
    """What is multiplied next comes to one slot while what lies in the other is multiplied."""

    def begin_ahead(self, position: Position) -> None:
        when(position.tile.less_than(self._tiles), lambda: self._copy(position))
        commit_copies()

    def begin(self, position: Position) -> None:
        pass

    def end(self, sums: ScaledSums) -> ScaledSums:
        wait_for_copies()
        publish()
        # All threads are done with the other slot, too.
        warpgroup_barrier(self._warpgroup)
        return sums

    def place(self, position: Position) -> Index:
        blocks, slots = self._schedule.channel_blocks, self._patch.slots
        number = position.block if blocks % slots == 0 else position.walked * blocks + position.block
        return self._begin + Index.of(number) % slots * self._patch.bytes

    def _copy(self, position: Position) -> None:
        """Begins to copy this thread's chunks of a patch, zeros where the convolution pads."""
        chunks, address = self._patch.channel_quads * QUAD // CELL, self._image.address
        for row, column, chunk in self._own(chunks):
            pixel, exists = self._pixel(position.tile, row, column)
            channel = (chunk + position.block * chunks) * CELL
            source = address + self._image.pixel_offset(pixel, channel) * HALF_BYTES
            (place,) = self._patch.places(row, column, chunk * (CELL // QUAD))
            self._shared.copy_chunk(place + self.place(position), source, exists)
