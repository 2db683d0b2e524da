"""Direct convolutions as implicit matrix products on matrix units, which split or round the image on the way.

A workgroup copies all filters of its output channels to shared memory once. Then its warpgroups, each on
its own, take one tile of 64 outputs after the other. A warpgroup loads the patch of the image that the tile
reads, scales it by a power of two, leaves it in shared memory as high and low parts, and has matrix units
multiply it, for each tap from where that is in the patch. While one warpgroup loads or stores, others
multiply.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from itertools import product
from math import prod

from iree.winograd.dialect.bindings import arith, gpu, ir
from iree.winograd.pipelines.emission.control_flow import loop, when
from iree.winograd.pipelines.emission.filter_layout import FilterLayout
from iree.winograd.pipelines.emission.index import Condition, Index, ceildiv, unflatten
from iree.winograd.pipelines.emission.vectors import broadcast
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.gpu.device.matrix_unit import WARP_THREADS
from iree.winograd.pipelines.gpu.device.memory import (
    QUAD,
    GlobalBuffer,
    barrier,
    thread_id,
)
from iree.winograd.pipelines.gpu.device.warpgroup import (
    BARRIER_BYTES,
    REDUCTION,
    WARPGROUP_THREADS,
    Operand,
    SharedBytes,
    address_of,
    publish,
    warpgroup_barrier,
)
from iree.winograd.pipelines.gpu.packing.implicit_gemm import ImplicitGemmPacking
from iree.winograd.pipelines.gpu.schedules.implicit_gemm import WARP_MAXIMA_BYTES
from iree.winograd.pipelines.gpu.schedules.matrix import HALF_BYTES

from .matrix_sums import MatrixSums
from .products import Block
from .running_sums import RunningSums, Step
from .split_operands import SplitFilterKernel
from .splitting import (
    finite_magnitude,
    integer,
    integer_type,
    largest_of,
    largest_of_quad,
    parts_of,
    scales_for,
)
from .transforms import Epilogue
from .warpgroup import PAIR_COLUMNS, PAIR_ROWS, WARP_ROWS, WARPS, quad_of_sums

_INTEGER_BYTES = 4


@dataclass(frozen=True)
class ImplicitGemmKernel:
    """output[n, o..., k] = epilogue(sum over taps and c of image[n, o + tap, c] * filters[tap, c, k])."""

    packing: ImplicitGemmPacking

    def filter_kernel(self, layout: FilterLayout) -> SplitFilterKernel:
        return SplitFilterKernel(self.packing, layout)

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index]:
        """Those that walk over tiles, blocks of output channels."""
        packing = self.packing
        walking = packing.tile_count(sizes).minimum(packing.schedule.walking_workgroups)
        return walking, ceildiv(packing.group_outputs, packing.schedule.block_columns)

    def emit(
        self,
        work: Work,
        image: GlobalBuffer,
        filters: GlobalBuffer,
        output: GlobalBuffer,
        epilogue: Epilogue,
    ) -> None:
        """`image` is N x H... x C, `filters` is packed, `output` is N x OH... x K."""
        _Workgroup(self.packing, work, image, filters).emit(output, epilogue)


@dataclass(frozen=True)
class _Sums:
    """A thread's sums one by one, of large products and of small ones, and what they are to be scaled by."""

    scalars: list[list[ir.Value]]
    """Empty before there are any."""
    largest: ir.Value | None
    """The magnitude that the scale is for; None before there are any."""


class _Workgroup:
    """One workgroup of the kernel, as one of its threads sees it."""

    def __init__(
        self,
        packing: ImplicitGemmPacking,
        work: Work,
        image: GlobalBuffer,
        filters: GlobalBuffer,
    ) -> None:
        schedule = packing.schedule
        self._packing, self._schedule = packing, schedule
        self._image, self._filters = image, filters
        self._tiles = packing.tile_count(work.sizes)
        self._workgroup = work.workgroup[0]
        first_column = work.workgroup[1] * schedule.block_columns
        if packing.padded_filters == schedule.block_columns:
            first_column = Index(0)
        self._block = Block(Index(0), first_column, Index(0), Index(0))
        thread = thread_id()
        self._thread, self._warpgroup = thread % WARPGROUP_THREADS, thread // WARPGROUP_THREADS
        self._lane, self._warp = self._thread % WARP_THREADS, self._thread // WARP_THREADS
        self._shared = SharedBytes.allocate(packing.barrier_begin + BARRIER_BYTES, "filters_and_patches")
        self._filters_are_there = self._shared.barrier(packing.barrier_begin)
        self._patch = self._warpgroup * packing.patch.bytes + packing.patches_begin
        self._maxima = self._warpgroup * WARP_MAXIMA_BYTES + packing.maxima_begin

    def emit(self, output: GlobalBuffer, epilogue: Epilogue) -> None:
        is_first = (self._warpgroup * WARPGROUP_THREADS + self._thread).less_than(1)
        when(is_first, self._initialize)
        barrier()
        when(is_first, self._copy_filters)
        walking = self._schedule.walking_workgroups
        first, step = self._warpgroup * walking + self._workgroup, walking * self._schedule.warpgroups
        with loop(self._tiles - first, step, "tile") as ahead:
            tile = first + ahead
            sums = _Sums([], None)
            loaded = self._load(tile, 0)
            for block in range(self._schedule.channel_blocks):
                sums = self._split(loaded, sums)
                if block == 0:
                    self._filters_are_there.wait(Index(0))
                if block + 1 < self._schedule.channel_blocks:
                    # It comes while matrix units multiply.
                    loaded = self._load(tile, block + 1)
                sums = self._multiply(block, sums)
            self._store(tile, sums, output, epilogue)

    def _initialize(self) -> None:
        self._filters_are_there.initialize(arrivals=1)
        publish()

    def _copy_filters(self) -> None:
        packing = self._packing
        self._filters_are_there.arrive_expecting(packing.patches_begin)
        stage = packing.filter_stage(self._block.first_column, Index(0))
        source = address_of(self._filters) + stage * HALF_BYTES
        for offset in range(0, packing.patches_begin, packing.stage_bytes):
            self._shared.copy(offset, source + offset, packing.stage_bytes, self._filters_are_there)

    # The image

    def _own_quads(self) -> list[tuple[Index, Index, Index]]:
        """Row, column and quad of channels of what this thread loads of a patch.

        The threads of a pixel, and those beside it, go from row to row, whose numbers are known; what is left
        of the columns is theirs as it comes, the last quads several times. Neighbouring threads have what is
        neighbours in memory: quads of channels or, with these first, columns.
        """
        packing, quads = self._packing, self._packing.patch.channel_quads
        channels_first = packing.shape.input_channels_first
        rows, columns = packing.patch.extents
        pixels = WARPGROUP_THREADS // quads
        whole = columns // pixels * pixels if pixels * quads == WARPGROUP_THREADS else 0
        pixel, quad = self._thread // quads, self._thread % quads
        if channels_first and whole:
            pixel, quad = self._thread % pixels, self._thread // pixels
        own = [
            (Index(row), pixel + first, quad) for row in range(rows) for first in range(0, whole, pixels or 1)
        ]
        left = (rows, columns - whole, quads)
        for first in range(0, prod(left), WARPGROUP_THREADS):
            number = (self._thread + first).minimum(prod(left) - 1)
            if channels_first:
                quad, row, column = unflatten(number, (quads, rows, columns - whole))
            else:
                row, column, quad = unflatten(number, left)
            own.append((row, column + whole, quad))
        return own

    def _load(self, tile: Index, block: int) -> list[ir.Value]:
        """This thread's quads of a block of channels of a tile's patch; zeros where the convolution pads."""
        packing, shape = self._packing, self._packing.shape
        image, *first = self._place(tile)
        origin = [
            at * stride - low for at, stride, low in zip(first, shape.strides, shape.padding_low, strict=True)
        ]
        quads = []
        for row, column, quad in self._own_quads():
            exists, position = Condition(True), []
            for at, size in zip(
                (origin[0] + row, origin[1] + column), packing.patch.input_plane, strict=True
            ):
                exists = exists & at.within(size)
                position.append(at.maximum(0).minimum(size - 1))
            channel = (quad + block * self._packing.patch.channel_quads) * QUAD
            offset = self._image.offset([image, *position, channel])
            remaining = Index(self._packing.group_channels) - channel
            quads.append(self._image.load_first(offset, remaining, exists))
        return quads

    def _place(self, tile: Index) -> tuple[Index, Index, Index]:
        """The image of a tile, and the first of its outputs."""
        down, across = self._packing.patch.tiles_per_image
        rows, columns = self._packing.patch.tile
        image, row, column = unflatten(tile, (1, down, across))
        return image, row * rows, column * columns

    def _split(self, loaded: list[ir.Value], sums: _Sums) -> _Sums:
        """Leaves a patch in shared memory; gives the sums before it for its scale, which is no less."""
        patch, largest = self._packing.patch, self._largest(loaded)
        if sums.largest is not None:
            largest = arith.maxui(largest, sums.largest)
        _, inverse = scales_for(largest, 0)
        factor = broadcast(inverse, QUAD)
        for value, own in zip(loaded, self._own_quads(), strict=True):
            parts = parts_of(arith.mulf(value, factor), self._schedule.parts, self._schedule.unit.low_bits)
            for place, (number, part) in product(patch.places(*own), enumerate(parts)):
                self._shared.store(part, place + self._patch + number * patch.part_bytes)
        publish()
        warpgroup_barrier(self._warpgroup)
        if sums.largest is None:
            return _Sums(sums.scalars, largest)
        before, _ = scales_for(sums.largest, 0)
        ratio = arith.mulf(before, inverse)
        return _Sums([[arith.mulf(each, ratio) for each in part] for part in sums.scalars], largest)

    def _largest(self, loaded: list[ir.Value]) -> ir.Value:
        """The largest magnitude of a patch, of all threads of the warpgroup; infinities don't count.

        When it is known, all of them are done with the patch before.
        """
        found = largest_of_quad(largest_of([finite_magnitude(quad) for quad in loaded]))
        offset = 1
        while offset < WARP_THREADS:
            other = gpu.shuffle(found, integer(offset), integer(WARP_THREADS), gpu.ShuffleMode.XOR)[0]
            found = arith.maxui(found, other)
            offset *= 2
        self._shared.store(found, self._maxima + self._warp * _INTEGER_BYTES)
        warpgroup_barrier(self._warpgroup)
        return reduce(
            arith.maxui,
            [
                self._shared.load(integer_type(), self._maxima + number * _INTEGER_BYTES)
                for number in range(WARPS)
            ],
        )

    # The products

    def _multiply(self, block: int, before: _Sums) -> _Sums:
        packing, schedule, geometry = self._packing, self._schedule, self._packing.patch
        distances = geometry.pair_bytes, geometry.line_bytes
        patch = self._shared.gathered_operand(self._patch, *distances)
        filters = self._shared.operand(0)
        per_stage, parts = schedule.block_reduction // REDUCTION, range(schedule.parts)

        def operands(step: int, place: int, patch: Operand, filters: Operand) -> Step:
            stage, within = divmod(step, per_stage)
            rows, columns = patch.behind(place), filters.behind(stage * packing.stage_bytes)
            return Step(
                [rows.behind(part * geometry.part_bytes) for part in parts],
                [columns.step(part * per_stage + within) for part in parts],
            )

        steps = geometry.steps(block)
        sums = RunningSums.of(schedule, before.scalars) if before.scalars else RunningSums.none(schedule)
        summed = schedule.summed_steps or len(steps)
        for first in range(0, len(steps), summed):
            here = patch.here(), filters.here()
            sums = sums.add([operands(*step, *here) for step in steps[first : first + summed]])
        return _Sums(sums.landed(), before.largest)

    # The results

    def _store(
        self,
        tile: Index,
        sums: _Sums,
        output: GlobalBuffer,
        epilogue: Epilogue,
    ) -> None:
        packing = self._packing
        assert sums.largest is not None
        scale, _ = scales_for(sums.largest, 0)
        restoring = MatrixSums(packing, self._block, self._filters)
        first = self._lane % QUAD * QUAD
        pairs = range(self._schedule.block_columns // PAIR_COLUMNS)
        columns = [first + j * PAIR_COLUMNS for j in pairs]
        column_scales = [restoring.column_scale(column) for column in columns]
        row_scale = broadcast(scale, QUAD)
        image, *origin = self._place(tile)
        # What an epilogue reads for a column serves both rows, and then needs no registers.
        for j, half in product(pairs, range(2)):
            number = self._warp * WARP_ROWS + self._lane // QUAD + half * PAIR_ROWS
            within = unflatten(number, packing.patch.tile)
            at = [begin + i for begin, i in zip(origin, within, strict=True)]
            exists = Condition(True)
            for index, size, extent in zip(at, packing.patch.output_plane, packing.patch.tile, strict=True):
                exists = exists & (index.less_than(size) if size % extent else Condition(True))
            channel = self._block.first_column + columns[j]
            if packing.group_outputs != packing.padded_filters:
                exists = exists & channel.less_than(packing.group_outputs)
            quads = [quad_of_sums(each, j, half) for each in sums.scalars]
            small = quads[1] if len(quads) > 1 else None

            def finish(
                at: list[Index] = at,
                channel: Index = channel,
                large: ir.Value = quads[0],
                small: ir.Value | None = small,
                column_scale: ir.Value = column_scales[j],
            ) -> None:
                position = packing.patch.output_position((at[0], at[1]))
                value = restoring.restored(large, small, row_scale, column_scale)
                finished = epilogue(value, image, position, channel)
                output.store(finished, output.offset([image, *position, channel]))

            when(exists, finish)
