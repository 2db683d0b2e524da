"""Products at fp32's accuracy on matrix units: of operands that are split into two fp16 numbers each.

    x y = high high' + 2^-11 (high low' + low high'),  three products of fp16 with sums in fp32

The product of the low parts is below fp32's roundoff. The small products have sums of their own: matrix
units truncate when they add, so added to the large ones they would lose what they are for. (Ootomo and
Yokota, "Recovering single precision accuracy from Tensor Cores while surpassing the FP32 theoretical peak
performance", IJHPCA 2022.)

Stages of both operands are copied to shared memory as they lie in memory; while one is multiplied, the next
ones are on their way.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from iree.winograd.dialect.bindings import arith, ir, scf
from iree.winograd.pipelines.emission.control_flow import when
from iree.winograd.pipelines.emission.index import Index, select_index
from iree.winograd.pipelines.gpu.device.matrix_unit import (
    COPIED,
    MATRIX_ROWS,
    WARP_THREADS,
    StageMemory,
    column_fragments,
    commit_copies,
    multiply,
    no_sums,
    sum_quads,
    wait_for_copies,
)
from iree.winograd.pipelines.gpu.device.memory import QUAD, GlobalBuffer, thread_id
from iree.winograd.pipelines.gpu.packing.split import LOW_PART
from iree.winograd.pipelines.gpu.schedules.matrix import STAGE_ROW
from iree.winograd.pipelines.gpu.schedules.split import SplitSchedule

from .matrix_sums import MatrixSums
from .products import Block, Blocks, StoreQuad, Storing
from .split_operands import OfSplitOperands, stage_place

_SQUARE = 8
"""Rows and columns of the matrices that fragments are loaded by."""


@dataclass(frozen=True)
class SplitProduct(OfSplitOperands):
    """Three products of fp16 numbers for each of fp32, or one of rounded numbers."""

    schedule: SplitSchedule
    """That of the packing."""

    @property
    def walking_workgroups(self) -> None:
        return None

    def emit(
        self, blocks: Blocks, batch: Index, left: GlobalBuffer, filters: GlobalBuffer, storing: Storing
    ) -> None:
        """Emits what a workgroup does for its block."""
        del batch
        block = blocks.only()
        store = storing(block)
        _Workgroup(self, block, left, filters).emit(store)


class _Workgroup:
    """One workgroup of the kernel, as one of its threads sees it."""

    def __init__(self, kernel: SplitProduct, block: Block, left: GlobalBuffer, filters: GlobalBuffer) -> None:
        packing, schedule = kernel.packing, kernel.schedule
        self._packing, self._schedule, self._block = packing, schedule, block
        self._steps = schedule.block_reduction // MATRIX_ROWS
        self._left, self._filters = left, filters
        self._thread = thread_id()
        lane, warp = self._thread % WARP_THREADS, self._thread // WARP_THREADS
        across = schedule.block_columns // schedule.warp_columns
        self._lane = lane
        self._warp_row = warp // across * schedule.warp_rows
        self._warp_column = warp % across * schedule.warp_columns
        self._stage = (schedule.block_rows + schedule.block_columns) * STAGE_ROW
        self._shared = StageMemory.allocate(min(schedule.stages, packing.stages) * self._stage, "stages")
        f16 = ir.F16Type.get()
        self._sources = (
            (
                left.viewed_as(f16),
                packing.input_stage(block.row_block, block.product),
                schedule.block_rows,
                0,
            ),
            (
                filters.viewed_as(f16),
                packing.filter_stage(block.first_column, block.product),
                schedule.block_columns,
                schedule.block_rows * STAGE_ROW,
            ),
        )
        row, matrix = lane % _SQUARE, lane // _SQUARE
        left_row = self._warp_row + matrix % 2 * _SQUARE + row
        right_row = self._warp_column + matrix // 2 * _SQUARE + row
        self._left_places = self._fragment_places(left_row, matrix // 2)
        self._right_places = [
            place + schedule.block_rows * STAGE_ROW for place in self._fragment_places(right_row, matrix % 2)
        ]

    def emit(self, store: StoreQuad) -> None:
        stages = self._packing.stages
        sums = [no_sums()] * (self._schedule.parts * self._tiles)
        sums = self._in_memory_at_once(sums) if stages <= self._schedule.stages else self._in_turns(sums)
        self._finish(sums[: self._tiles], sums[self._tiles :], store)

    # The main loop

    def _in_memory_at_once(self, sums: list[ir.Value]) -> list[ir.Value]:
        """All stages have a place of their own."""
        stages = self._packing.stages
        for stage in range(stages):
            self._copy(Index(stage), Index(stage * self._stage))
            group = commit_copies()
        for stage in range(stages):
            wait_for_copies(group, stages - 1 - stage)
            sums = self._multiply(Index(stage * self._stage), sums)
        return sums

    def _in_turns(self, sums: list[ir.Value]) -> list[ir.Value]:
        """While one stage is multiplied, the others are copied."""
        count, stages = self._schedule.stages, self._packing.stages
        for stage in range(count - 1):
            self._copy(Index(stage), Index(stage * self._stage))
            group = commit_copies()

        def following(place: Index) -> Index:
            after = place + self._stage
            return select_index(after.less_than(count * self._stage), after, 0)

        initial = [*sums, Index(0).value, Index((count - 1) * self._stage).value]
        stage_loop = scf.ForOp(Index(0).value, Index(stages).value, Index(1).value, initial)
        with ir.InsertionPoint(stage_loop.body):
            *current, read, written = stage_loop.inner_iter_args
            wait_for_copies(group, count - 2)
            ahead = Index(stage_loop.induction_variable) + (count - 1)
            when(ahead.less_than(stages), lambda: self._copy(ahead, Index(written)))
            commit_copies()
            current = self._multiply(Index(read), current)
            scf.yield_([*current, following(Index(read)).value, following(Index(written)).value])
        return list(stage_loop.results)[: len(sums)]

    def _copy(self, stage: Index, place: Index) -> None:
        """Starts to copy this thread's share of a stage of both operands."""
        first = self._thread * COPIED
        step = self._schedule.threads * COPIED
        for source, origin, rows, behind in self._sources:
            at = origin + stage * (rows * STAGE_ROW) + first
            for offset in range(0, rows * STAGE_ROW, step):
                self._shared.copy(place + first + (behind + offset), source, at + offset)

    def _multiply(self, place: Index, sums: list[ir.Value]) -> list[ir.Value]:
        """Adds the products of the stage at `place` to the sums: of high parts, then the small ones."""
        sums, low = list(sums), self._tiles
        in_blocks = self._schedule.summed_block is not None
        before = sums[:low]
        if in_blocks:
            sums[:low] = [no_sums()] * low
        for step in range(self._steps):
            high_rows, high_columns = self._rows(place, step), self._columns(place, step)
            self._add(sums, 0, high_rows, high_columns)
            if self._schedule.parts == 2:
                self._add(sums, low, high_rows, self._columns(place, self._steps + step))
                self._add(sums, low, self._rows(place, self._steps + step), high_columns)
        if in_blocks:
            sums[:low] = [arith.addf(sum_, block) for sum_, block in zip(before, sums[:low], strict=True)]
        return sums

    def _rows(self, place: Index, step: int) -> list[ir.Value]:
        """The warp's fragments of the left operand."""
        return [
            self._shared.fragment(self._left_places[step] + place + i * (MATRIX_ROWS * STAGE_ROW))
            for i in range(self._tiles_down)
        ]

    def _columns(self, place: Index, step: int) -> list[ir.Value]:
        """The warp's fragments of the right operand, of eight columns each."""
        return [
            half
            for j in range(self._tiles_across // 2)
            for half in column_fragments(
                self._shared.fragment(self._right_places[step] + place + j * (MATRIX_ROWS * STAGE_ROW))
            )
        ]

    def _add(self, sums: list[ir.Value], first: int, rows: list[ir.Value], columns: list[ir.Value]) -> None:
        for i, j in product(range(self._tiles_down), range(self._tiles_across)):
            position = first + i * self._tiles_across + j
            sums[position] = multiply(rows[i], columns[j], sums[position])

    def _fragment_places(self, row: Index, chunk: Index) -> list[Index]:
        """Where a thread's row of matrices lies in a stage: of high parts, then of low parts."""
        places = [stage_place(row, (chunk + 2 * step) * COPIED) for step in range(self._steps)]
        return places + [place ^ LOW_PART for place in places if self._schedule.parts == 2]

    @property
    def _tiles_down(self) -> int:
        return self._schedule.warp_rows // MATRIX_ROWS

    @property
    def _tiles_across(self) -> int:
        """Of eight columns each."""
        return self._schedule.warp_columns // _SQUARE

    @property
    def _tiles(self) -> int:
        return self._tiles_down * self._tiles_across

    # The results

    def _finish(self, high: list[ir.Value], low: list[ir.Value], store: StoreQuad) -> None:
        """Joins the sums, scales them back, and stores them."""
        thread_row = self._warp_row + self._lane // QUAD
        thread_column = self._warp_column + self._lane % QUAD * QUAD
        columns = [thread_column + j * MATRIX_ROWS for j in range(self._tiles_across // 2)]
        sums = MatrixSums(self._packing, self._block, self._filters)
        column_scales = [sums.column_scale(column) for column in columns]
        row_scale = sums.row_scales(self._left.viewed_as(ir.F32Type.get()))
        for i in range(self._tiles_down):
            rows = [thread_row + (i * MATRIX_ROWS + half * _SQUARE) for half in range(2)]
            scales = [row_scale(row) for row in rows]
            for j, column in enumerate(columns):
                first = i * self._tiles_across + 2 * j
                large = sum_quads(high[first : first + 2])
                small = sum_quads(low[first : first + 2]) if low else [None, None]
                for half, row in enumerate(rows):
                    store(
                        row, column, sums.restored(large[half], small[half], scales[half], column_scales[j])
                    )
