"""Products of a few rows and a matrix, which is read once and takes all of the time.

Each thread has several loads of 16 bytes under way. What comes is multiplied by all rows: of half precision
on matrix units, of f32 by multiply-adds. The sums of the threads of a workgroup for the same column, and then
of the workgroups, are added in a fixed order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
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
from iree.winograd.pipelines.gpu.device.matrix_unit import MATRIX_ROWS, WARP_THREADS
from iree.winograd.pipelines.gpu.device.memory import (
    QUAD,
    GlobalBuffer,
    SharedBuffer,
    barrier,
    lane,
    quad_of,
    thread_id,
)
from iree.winograd.pipelines.gpu.device.mma import multiply, no_sums
from iree.winograd.pipelines.gpu.device.shuffles import over_threads
from iree.winograd.pipelines.gpu.kernels.winograd.transforms import TRANSFORM_THREADS, ThreadGrid, filter_taps
from iree.winograd.pipelines.gpu.packing.gemv import PAIR, GemvPacking
from iree.winograd.pipelines.gpu.schedules.gemv import GEMV_LOADS

from .products import Block, Blocks, Results, Storing


@dataclass(frozen=True)
class GemvFilterKernel:
    """The matrix in the packed layout, of filters known only at run time.

    A thread has a quad of columns, of as many positions along the reduction dimension as 16 bytes hold.
    """

    packing: GemvPacking
    layout: FilterLayout
    threads: int = TRANSFORM_THREADS

    def workgroups(self, sizes: Sizes) -> tuple[Index, ...]:
        """Positions along the reduction dimension, output channels."""
        del sizes
        return self._grid.workgroups(self._rows)

    def emit(self, work: Work, source: GlobalBuffer, packed: GlobalBuffer) -> None:
        """`source` is the filters, as the layout has them."""
        packing, schedule = self.packing, self.packing.schedule
        count, number = schedule.loaded_elements, schedule.factors
        first, quad, exists = self._grid.place(work.workgroup, self._rows)
        chunks, column = packed.viewed_as(number.type, count), quad * QUAD
        taps = (Index(0),) * packing.shape.decomposition.spatial_rank

        def load(row: Index) -> ir.Value:
            return filter_taps(packing, self.layout, row, column, Index(0), source)(taps)

        def store(chunk: ir.Value, row: Index, column: Index) -> None:
            memref.store(number.narrowed(chunk), chunks, [(packing.element(row, column) // count).value])

        def store_quad() -> None:
            store(load(first), first, column)

        def store_pairs() -> None:
            row = first * QUAD
            quads = [load(row + i) for i in range(QUAD)]
            for pair in range(0, QUAD, PAIR):
                # A register has a pair of positions of a column.
                order = [
                    lane(quads[i + j], pair + k) for i in (0, PAIR) for k in range(PAIR) for j in range(PAIR)
                ]
                store(quad_of(order), row, column + pair)

        when(exists, store_pairs if schedule.on_matrix_units else store_quad)

    @property
    def _rows(self) -> Index:
        """Of the grid: positions, or fours of them."""
        positions = QUAD if self.packing.schedule.on_matrix_units else 1
        return Index(self.packing.padded_reduction // positions)

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
        workgroup = _OnMatrixUnits if self.packing.schedule.on_matrix_units else _ByMultiplyAdds
        workgroup(self.packing, sizes, block, left, filters).emit(storing(block))


class _Workgroup(ABC):
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
        self._packing, self._schedule, self._image, self._block = packing, schedule, image, block
        self._chunks = filters.viewed_as(schedule.factors.type, schedule.loaded_elements)
        thread = thread_id()
        self._thread, self._lane, self._warp = thread, thread % WARP_THREADS, thread // WARP_THREADS
        self._first = block.part * packing.part_reduction + self._warp * schedule.warp_positions
        self._shape = packing.in_line(sizes, image) or SizedShape.of(packing.shape, sizes)
        self._last = packing.tiles(sizes) - 1
        extents = (schedule.warps, schedule.block_rows, schedule.block_columns // QUAD)
        self._shared = SharedBuffer.allocate(extents, "sums_of_warps", image.computed, self._stored_width)

    @property
    @abstractmethod
    def _stored_width(self) -> int:
        """Neighbouring sums of a row that a thread stores at once in shared memory."""

    @property
    @abstractmethod
    def _no_sums(self) -> list[ir.Value]:
        """What a thread's sums begin with."""

    @abstractmethod
    def _added(self, position: Index, sums: list[ir.Value]) -> list[ir.Value]:
        """The sums with the products of the warp's positions from `position` on, all loaded before any."""

    @abstractmethod
    def _share(self, sums: Sequence[ir.Value]) -> None:
        """Writes the warp's sums to shared memory."""

    def emit(self, results: Results) -> None:
        step = self._schedule.block_reduction
        sums = loop_carried(
            self._packing.part_reduction // step,
            1,
            self._no_sums,
            lambda number, sums: self._added(self._first + number * step, sums),
            "step",
        )
        self._share(sums)
        barrier()
        quads = self._schedule.block_columns // QUAD
        count = self._schedule.block_rows * quads
        for number in range(ceil_div(count, self._schedule.threads)):
            own = self._thread + number * self._schedule.threads
            row, quad = own // quads, own % quads

            def finish(row: Index = row, quad: Index = quad) -> None:
                results.store(row, quad * QUAD, self._sum_of_warps(row, quad))

            when(own.less_than(count), finish)

    def _row(self, number: Index) -> Index:
        """Where a row of the block begins. Those behind the last one are that one again."""
        tile = locate_tile(
            self._shape, (self._block.row_block * self._schedule.block_rows + number).minimum(self._last)
        )
        origin = (0,) * self._packing.shape.decomposition.spatial_rank
        positions = (each.first for each in input_positions(self._shape, tile, origin))
        return self._image.offset([tile.image, *positions, 0])

    def _load(self, row: Index, position: Index) -> ir.Value:
        """A quad of the row that begins there; zeros behind its end."""
        reduction = self._packing.reduction
        if reduction == self._packing.padded_reduction:
            return self._image.load(row + position)
        if reduction % QUAD:
            existing = position.minimum(reduction - 1)
            return self._image.load_first(
                row + existing, Index(reduction) - existing, position.less_than(reduction)
            )
        exists = position.less_than(reduction)
        return self._image.load(row + position.minimum(reduction - QUAD), QUAD, exists)

    def _chunk(self, row: Index, column: Index) -> ir.Value:
        """The 16 bytes of the matrix that begin with an element."""
        place = self._packing.element(row, column) // self._schedule.loaded_elements
        return memref.load(self._chunks, [place.value])

    def _sum_of_warps(self, row: Index, quad: Index) -> ir.Value:
        parts = QUAD // self._stored_width
        total: list[ir.Value] = []
        for warp in range(self._schedule.warps):
            loaded = [self._shared.load([warp, row, quad * parts + part]) for part in range(parts)]
            total = list(map(arith.addf, total, loaded)) if total else loaded
        if parts == 1:
            return total[0]
        return quad_of([lane(part, i) for part in total for i in range(self._stored_width)])


class _ByMultiplyAdds(_Workgroup):
    """Threads side by side have the columns of the block, those behind them have other positions."""

    @property
    def _stored_width(self) -> int:
        return QUAD

    @property
    def _no_sums(self) -> list[ir.Value]:
        return [splat(0.0, QUAD, self._image.computed)] * self._schedule.block_rows

    @property
    def _side_by_side(self) -> int:
        """Threads that have all columns."""
        return self._schedule.block_columns // QUAD

    @property
    def _column(self) -> Index:
        """Of the block, the first of this thread's quad."""
        return self._lane % self._side_by_side * QUAD

    def _added(self, position: Index, sums: list[ir.Value]) -> list[ir.Value]:
        position = position + self._lane // self._side_by_side * GEMV_LOADS
        column = self._block.first_column + self._column
        loaded = [self._chunk(position + i, column) for i in range(GEMV_LOADS)]
        rows = [self._row(Index(row)) for row in range(self._schedule.block_rows)]
        factors = [[self._load(row, position + i) for i in range(0, GEMV_LOADS, QUAD)] for row in rows]
        added = list(sums)
        for i, columns in enumerate(loaded):
            for row, quads in enumerate(factors):
                factor = broadcast(lane(quads[i // QUAD], i % QUAD), QUAD)
                added[row] = vector.fma(factor, columns, added[row])
        return added

    def _share(self, sums: Sequence[ir.Value]) -> None:
        behind = WARP_THREADS // self._side_by_side
        totals = [self._over_threads(each) for each in sums] if behind > 1 else sums

        def store() -> None:
            for row, each in enumerate(totals):
                self._shared.store(each, [self._warp, row, self._column // QUAD])

        when(self._lane.less_than(self._side_by_side), store)

    def _over_threads(self, quad: ir.Value) -> ir.Value:
        """The sum of those of the threads that have the same columns."""
        return quad_of(
            [
                over_threads(lane(quad, i), WARP_THREADS, arith.addf, nearest=self._side_by_side)
                for i in range(QUAD)
            ]
        )


class _OnMatrixUnits(_Workgroup):
    """Columns of the matrix are the 16 rows of the units' left operand, rows of the image the columns of the
    right one, of which four threads have four neighbouring positions each."""

    @property
    def _stored_width(self) -> int:
        return PAIR

    @property
    def _no_sums(self) -> list[ir.Value]:
        return [no_sums()] * self._tiles

    @property
    def _tiles(self) -> int:
        """Of 16 columns, side by side in a block."""
        return self._schedule.block_columns // MATRIX_ROWS

    @property
    def _group(self) -> Index:
        """The number of this thread's two columns among 16, and that of the row that it loads."""
        return self._lane // (MATRIX_ROWS // QUAD)

    @property
    def _place(self) -> Index:
        """That of this thread among the four of a group."""
        return self._lane % (MATRIX_ROWS // QUAD)

    def _added(self, position: Index, sums: list[ir.Value]) -> list[ir.Value]:
        own, column = self._place * QUAD, self._block.first_column + self._group * PAIR
        depths = range(0, self._schedule.warp_positions, MATRIX_ROWS)
        loaded = [
            [self._chunk(position + depth + own, column + tile * MATRIX_ROWS) for tile in range(self._tiles)]
            for depth in depths
        ]
        row = self._row(self._group)
        factors = [self._load(row, position + depth + own) for depth in depths]
        added = list(sums)
        for chunks, quad in zip(loaded, factors, strict=True):
            columns = self._fragment(self._schedule.factors.narrowed(quad))
            added = [
                multiply(self._fragment(chunk), columns, sum_)
                for chunk, sum_ in zip(chunks, added, strict=True)
            ]
        return added

    def _fragment(self, halves: ir.Value) -> ir.Value:
        """What a thread holds of an operand: a pair in each register."""
        (count,) = ir.VectorType(halves.type).shape
        type_ = ir.VectorType.get([count // PAIR, PAIR], self._schedule.factors.type)
        return vector.shape_cast(type_, halves)

    def _share(self, sums: Sequence[ir.Value]) -> None:
        for i in range(PAIR):
            row = self._place * PAIR + i

            def store(row: Index = row, i: int = i) -> None:
                for tile, each in enumerate(sums):
                    pair = quad_of([vector.extract(each, [], [column, i]) for column in range(PAIR)])
                    place = tile * (MATRIX_ROWS // PAIR) + self._group
                    self._shared.store_part(pair, [self._warp, row, place])

            when(row.less_than(self._schedule.block_rows), store)
