"""Products of a few rows and a matrix of half precision, which is read once and takes all of the time.

Each thread has several loads of 16 bytes under way. It widens what comes to f32 and has sums in f32; those
of the threads of a workgroup for the same column, and then of the workgroups, are added in a fixed order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import arith, ir, memref, vector
from iree.winograd.pipelines.emission.control_flow import loop_carried, when
from iree.winograd.pipelines.emission.filter_layout import FilterLayout
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.sized_shape import SizedShape
from iree.winograd.pipelines.emission.tiles import input_positions, locate_tile
from iree.winograd.pipelines.emission.vectors import broadcast, splat
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.gpu.device.matrix_unit import COPIED, WARP_THREADS
from iree.winograd.pipelines.gpu.device.memory import (
    QUAD,
    GlobalBuffer,
    SharedBuffer,
    barrier,
    lane,
    quad_type,
    thread_id,
)
from iree.winograd.pipelines.gpu.packing.gemv import GemvPacking
from iree.winograd.pipelines.gpu.schedules.gemv import GEMV_POSITIONS

from .products import Block, Blocks, Results, Storing
from .transforms import TRANSFORM_THREADS, ThreadGrid, filter_taps


@dataclass(frozen=True)
class GemvFilterKernel:
    """The matrix in the packed layout, of filters known only at run time: a quad of columns of a thread."""

    packing: GemvPacking
    layout: FilterLayout
    threads: int = TRANSFORM_THREADS

    def workgroups(self, sizes: Sizes) -> tuple[Index, ...]:
        """Positions along the reduction dimension, output channels."""
        del sizes
        return self._grid.workgroups(Index(self.packing.padded_reduction))

    def emit(self, work: Work, source: GlobalBuffer, packed: GlobalBuffer) -> None:
        """`source` is the filters, as the layout has them."""
        packing, number = self.packing, self.packing.schedule.factors
        row, quad, exists = self._grid.place(work.workgroup, Index(packing.padded_reduction))
        halves, column = packed.viewed_as(number.type, QUAD), quad * QUAD
        load = filter_taps(packing, self.layout, row, column, Index(0), source)
        taps = (Index(0),) * packing.shape.decomposition.spatial_rank

        def store() -> None:
            place = packing.element(row, column) // QUAD
            memref.store(number.narrowed(load(taps)), halves, [place.value])

        when(exists, store)

    @property
    def _grid(self) -> ThreadGrid:
        return ThreadGrid(self.packing.padded_filters // QUAD, self.threads)


@dataclass(frozen=True)
class GemvProduct:
    """The product of the rows of an image and a matrix in the packed layout."""

    packing: GemvPacking

    @property
    def walking_workgroups(self) -> None:
        return None

    @property
    def input_kernel(self) -> None:
        return None

    def filter_kernel(self, layout: FilterLayout) -> GemvFilterKernel:
        return GemvFilterKernel(self.packing, layout)

    def emit(
        self, blocks: Blocks, sizes: Sizes, left: GlobalBuffer, filters: GlobalBuffer, storing: Storing
    ) -> None:
        """Emits what a workgroup does for its block."""
        block = blocks.only()
        _Workgroup(self.packing, sizes, block, left, filters).emit(storing(block))


class _Workgroup:
    """One workgroup of the kernel, as one of its threads sees it."""

    def __init__(
        self,
        packing: GemvPacking,
        sizes: Sizes,
        block: Block,
        image: GlobalBuffer,
        filters: GlobalBuffer,
    ) -> None:
        schedule = packing.schedule
        self._packing, self._schedule, self._image = packing, schedule, image
        self._chunks = filters.viewed_as(schedule.factors.type, COPIED)
        thread = thread_id()
        self._thread, self._lane, self._warp = thread, thread % WARP_THREADS, thread // WARP_THREADS
        self._first = block.part * packing.part_reduction + self._warp * GEMV_POSITIONS
        self._column = block.first_column + self._lane * COPIED
        shape, last = SizedShape.of(packing.shape, sizes), packing.tiles(sizes) - 1
        begin = block.row_block * schedule.block_rows
        # Rows behind the last one are that one again, and aren't read.
        tiles = [locate_tile(shape, (begin + row).minimum(last)) for row in range(schedule.block_rows)]
        origin = (0,) * packing.shape.decomposition.spatial_rank
        self._rows = [
            image.offset([tile.image, *(each.first for each in input_positions(shape, tile, origin)), 0])
            for tile in tiles
        ]
        extents = (schedule.warps, schedule.block_rows, schedule.block_columns // QUAD)
        self._shared = SharedBuffer.allocate(extents, "sums_of_warps", image.computed)

    def emit(self, results: Results) -> None:
        zeros = [splat(0.0, COPIED, self._image.computed)] * self._schedule.block_rows
        steps = self._packing.part_reduction // self._schedule.block_reduction
        sums = loop_carried(steps, 1, zeros, self._step, "step")
        self._exchange(sums)
        quads = self._schedule.block_columns // QUAD
        count = self._schedule.block_rows * quads
        for number in range(ceil_div(count, self._schedule.threads)):
            own = self._thread + number * self._schedule.threads
            row, quad = own // quads, own % quads

            def finish(row: Index = row, quad: Index = quad) -> None:
                results.store(row, quad * QUAD, self._sum_of_warps(row, quad))

            when(own.less_than(count), finish)

    def _step(self, step: Index, sums: Sequence[ir.Value]) -> list[ir.Value]:
        """Adds the products of eight positions, all of which are loaded before."""
        position = self._first + step * self._schedule.block_reduction
        place = self._packing.element(position, self._column) // COPIED
        distance = self._schedule.block_columns // COPIED
        loaded = [memref.load(self._chunks, [(place + i * distance).value]) for i in range(GEMV_POSITIONS)]
        rows = [
            [self._load(first, position + i) for i in range(0, GEMV_POSITIONS, QUAD)] for first in self._rows
        ]
        added = list(sums)
        for i, chunk in enumerate(loaded):
            columns = self._schedule.factors.widened(chunk)
            for row, quads in enumerate(rows):
                factor = broadcast(lane(quads[i // QUAD], i % QUAD), COPIED)
                added[row] = vector.fma(factor, columns, added[row])
        return added

    def _load(self, first: Index, position: Index) -> ir.Value:
        """A quad of a row; zeros behind its end."""
        reduction = self._packing.reduction
        if reduction == self._packing.padded_reduction:
            return self._image.load(first + position)
        exists = position.less_than(reduction)
        return self._image.load(first + position.minimum(reduction - QUAD), QUAD, exists)

    def _exchange(self, sums: Sequence[ir.Value]) -> None:
        """Has all threads of the workgroup see the sums of this one."""
        type_ = quad_type(self._image.computed)
        for row, each in enumerate(sums):
            for i in range(COPIED // QUAD):
                quad = vector.extract_strided_slice(type_, each, [i * QUAD], [QUAD], [1])
                self._shared.store(quad, [self._warp, row, self._lane * (COPIED // QUAD) + i])
        barrier()

    def _sum_of_warps(self, row: Index, quad: Index) -> ir.Value:
        total = self._shared.load([0, row, quad])
        for warp in range(1, self._schedule.warps):
            total = arith.addf(total, self._shared.load([warp, row, quad]))
        return total
