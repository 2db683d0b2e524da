"""How the threads of a warpgroup finish their sums of 64 rows, quad by quad, and where these go.

What a quad is finished with, such as a residual, is asked for while the thread is busy with the quads before,
the first of them before the last products are done. In the main loop its lines come to the second cache.

Stores of threads take as long as products of some hundred positions: what a warp stores at once is a part of
eight rows. Where a schedule has memory for them results are left there instead, and copied row by row while
the next block is multiplied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.emission.control_flow import when
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.gpu.device.instruction_order import kept_here
from iree.winograd.pipelines.gpu.device.matrix_unit import WARP_THREADS
from iree.winograd.pipelines.gpu.device.memory import LINE_ELEMENTS, QUAD, lane, quad_of
from iree.winograd.pipelines.gpu.device.predicated_store import store_where
from iree.winograd.pipelines.gpu.device.warpgroup import (
    SPARE_REGISTERS,
    WARPGROUP_ROWS,
    WARPGROUP_THREADS,
    SharedBytes,
    commit_copies_out,
    index_here,
    publish,
    synchronize_warp,
    wait_for_copies_out,
)

from .matrix_sums import MatrixSums
from .products import ResultRow, Results
from .split_results import SplitOutputs, SplitRow

WARPS = WARPGROUP_THREADS // WARP_THREADS
"""Of a warpgroup."""
_WARP_ROWS = WARPGROUP_ROWS // WARPS
"""Whose sums a warp holds."""
_ROWS = 2
_ROW_DISTANCE = 8
"""Between these rows."""
_FEWEST_SPARE_REGISTERS = 28
"""Of `SPARE_REGISTERS`, while products are added: with 26, threads of 128 sums spilled 24 bytes."""


@dataclass(frozen=True)
class ResultMemory:
    """Shared memory for the rows of a block's results, which leave by copies."""

    shared: SharedBytes
    first: int
    """The offset of the first row."""
    pitch: int
    """Bytes from a row to the next."""


class WarpgroupResults:
    """A thread's: four neighbouring columns of every 16, in each of two rows, a step for every 16.

    By a schedule of a store width of eight it is eight of every 32, for which "quad" stands here.
    """

    def __init__(
        self,
        sums: MatrixSums,
        results: Results,
        thread: Index,
        registers: int,
        memory: ResultMemory | None = None,
    ) -> None:
        """`thread` counts those of warpgroups whose rows follow each other; a thread has `registers`."""
        self._sums, self._results, self._registers = sums, results, registers
        self._memory = memory if results.row_bytes is not None else None
        lane, warp = thread % WARP_THREADS, thread // WARP_THREADS
        self._lane, self._warp = lane, warp
        row = warp * _WARP_ROWS + lane // QUAD
        self.rows = [row + i * _ROW_DISTANCE for i in range(_ROWS)]
        self._width = sums.packing.schedule.neighbouring_columns
        self._step_columns = QUAD * self._width
        self._first_column = lane % QUAD * self._width
        self._steps = sums.packing.schedule.block_columns // self._step_columns
        self._columns: list[Index] = []
        self._loaded: list[list[ir.Value]] = []

    def prefetch(self, rows: int, thread: Index, threads: int) -> None:
        """Brings near what so many rows are finished with, by `threads` of which this is one."""
        across = ceil_div(self._sums.packing.schedule.block_columns, LINE_ELEMENTS)
        for first in range(0, rows * across, threads):
            # The last line is brought several times.
            number = thread + first
            if first + threads > rows * across:
                number = number.minimum(rows * across - 1)
            self._results.prefetch(number // across, number % across * LINE_ELEMENTS)

    def begin(self) -> None:
        """Begins the first loads, while all sums take registers, if there are some left."""
        sums = self._sums.packing.schedule.parts * self._steps * _ROWS * self._width
        if self._has_room(sums):
            self._begin(0, sums)

    def store(self, scalars: Sequence[Sequence[ir.Value]], row_scales: Sequence[ir.Value | None]) -> None:
        """Joins sums of large products and of small ones, scales them back, and stores them."""
        quads = [kept_here(self._joined(scalars, step)) for step in range(self._steps)]
        if self._memory is not None:
            # What this warp copied out before lies where its results go now.
            wait_for_copies_out(until_read=True)
            synchronize_warp()
        # Once for all that is stored of a row: a place takes tens of instructions.
        is_found = self._memory is None and self._results.stored_bytes is not None
        places = [self._results.row(row) for row in self.rows] if is_found else []
        split = self._split_rows(row_scales)
        for step, joined in enumerate(quads):
            self._begin(step, (self._steps - step) * _ROWS * self._width)
            column, loaded = self._columns[step], self._loaded[step]
            column_scale, loaded = (loaded[0], loaded[1:]) if self._is_scaled else (None, loaded)
            each = len(loaded) // _ROWS
            for i, (row, row_scale, quad) in enumerate(zip(self.rows, row_scales, joined, strict=True)):
                value = self._sums.restored(quad, row_scale, column_scale)
                of_row = loaded[i * each : (i + 1) * each]
                if self._memory is None and not (places or split):
                    self._results.store(row, column, value, of_row)
                    continue
                finished = self._results.finished(row, column, value, of_row)
                if split:
                    split[i].store(step * self._step_columns, finished)
                elif self._memory is None:
                    self._store_at(places[i], step, finished)
                else:
                    self._leave(self._memory, row, column, finished)
        if self._memory is not None:
            self._copy_out(self._memory)

    def _split_rows(self, scales: Sequence[ir.Value | None]) -> list[SplitRow]:
        """The rows of results that are split for the next product, by the scales of their operands."""
        results = self._results
        if not isinstance(results, SplitOutputs):
            return []
        rows = zip(self.rows, scales, strict=True)
        return [results.split_row(row, scale, self._first_column) for row, scale in rows]

    def _store_at(self, row: ResultRow, step: int, finished: ir.Value) -> None:
        """Stores the neighbours of a step of a row that is found, as many at once as these results may be."""
        type_ = ir.VectorType(finished.type)
        count, width = type_.shape[0], type_.element_type.width // 8
        first_byte, step_bytes = step * QUAD * count * width, QUAD * count * width
        offset = self._lane % QUAD * (count * width) + first_byte
        has_all = row.size.known is not None and first_byte + step_bytes <= row.size.known
        exists = row.exists if has_all else row.exists & offset.less_than(row.size)
        at_once = self._results.stored_bytes
        assert at_once is not None
        together = min(count, at_once // width)
        for first in range(0, count, together):
            part = quad_of([lane(finished, first + i) for i in range(together)])
            store_where(part, row.address + offset + first * width, exists)

    def _leave(self, memory: ResultMemory, row: Index, column: Index, finished: ir.Value) -> None:
        """Writes a finished quad to shared memory."""
        width = self._results.row_bytes
        assert width is not None
        memory.shared.store(finished, row * memory.pitch + column * width + memory.first)

    def _copy_out(self, memory: ResultMemory) -> None:
        """Begins to copy the rows of this warp, one for each of its first threads."""
        publish()
        synchronize_warp()

        def copy() -> None:
            number = self._warp * _WARP_ROWS + self._lane
            row = self._results.row(number)
            offset = number * memory.pitch + memory.first
            when(row.exists, lambda: memory.shared.copy_out(offset, row.address, row.size))

        when(self._lane.less_than(_WARP_ROWS), copy)
        commit_copies_out()

    def _has_room(self, sums: int) -> bool:
        """Whether there are registers for the loads of a step beside so many sums."""
        loads = self._width * (_ROWS * self._results.operands + self._is_scaled)
        return self._registers >= sums + loads + _FEWEST_SPARE_REGISTERS

    def _joined(self, scalars: Sequence[Sequence[ir.Value]], step: int) -> list[ir.Value]:
        """The two quads of a step."""
        joined = []
        for row in range(_ROWS):
            large, *small = (self._quad_of_sums(each, step, row) for each in scalars)
            joined.append(self._sums.joined(large, small[0] if small else None))
        return joined

    def _quad_of_sums(self, sums: Sequence[ir.Value], step: int, row: int) -> ir.Value:
        """Of a thread's sums the quad of a step, in one of its rows: products are of eight columns each."""
        first, pairs = 2 * self._width * step + 2 * row, self._width // 2
        return quad_of([sums[first + 4 * j + i] for j in range(pairs) for i in range(2)])

    @property
    def _is_scaled(self) -> bool:
        return self._sums.packing.schedule.scales_operands

    def _begin(self, step: int, sums: int) -> None:
        """Begins the loads of a step, if they aren't yet, and those after it that there are registers for."""
        self._begin_to(step + 1)
        held = self._width * max(1, len(self._loaded[step]))
        self._begin_to(step + (self._registers - sums - SPARE_REGISTERS) // held)

    def _begin_to(self, end: int) -> None:
        for step in range(len(self._loaded), min(end, self._steps)):
            column = index_here(self._first_column + step * self._step_columns)
            scale = self._sums.column_scale(column, self._width)
            loaded = [quad for row in self.rows for quad in self._results.load(row, column, self._width)]
            self._columns.append(column)
            self._loaded.append(kept_here(loaded if scale is None else [scale, *loaded]))
