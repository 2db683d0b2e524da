"""Pixels that stream through warpgroups: four warps multiply 64 of them by filters in shared memory."""

from __future__ import annotations

from collections.abc import Sequence

from iree.winograd.dialect.bindings import ir, vector
from iree.winograd.pipelines.emission.control_flow import loop, when
from iree.winograd.pipelines.emission.index import Condition, Index
from iree.winograd.pipelines.gpu.device.matrix_unit import COPIED, MATRIX_ROWS, MATRIX_SUMS
from iree.winograd.pipelines.gpu.device.memory import barrier
from iree.winograd.pipelines.gpu.device.warpgroup import (
    COPIED_BYTES,
    HeldRows,
    Operand,
    SharedBytes,
    commit_copies,
    publish,
    wait_for_copies,
)
from iree.winograd.pipelines.gpu.kernels.matrix_products.running_sums import RunningSums, Step
from iree.winograd.pipelines.gpu.kernels.matrix_products.warpgroup_results import WARPS
from iree.winograd.pipelines.gpu.schedules.matrix import HALF_BYTES, STAGE_ROW_BYTES

from .streamed_sums import RowScale, StreamedStoring, Sums
from .streamed_workgroup import Fragments, StreamedWorkgroup

_HALF_SUMS = 4
"""A thread's, of 16 rows and eight columns."""


class StreamedWarpgroups(StreamedWorkgroup):
    """One workgroup of the kernel, as one of its threads sees it.

    Warps hold the rows that they loaded, 16 each; matrix units take filters from shared memory by themselves.
    """

    def _allocate(self) -> None:
        size = self._schedule.bytes_for(self._packing.shape)
        self._shared_bytes = SharedBytes.allocate(size, "filters")
        self._source_address = self._filters.address

    @property
    def _first_together(self) -> Index:
        return self._first - self._first % WARPS

    def _copy_chunk(self, place: Index, source: Index) -> None:
        address = self._source_address + source * HALF_BYTES
        assert COPIED * HALF_BYTES == COPIED_BYTES
        self._shared_bytes.copy_chunk(place * HALF_BYTES, address, Condition(True))

    def _wait_for_filters(self) -> None:
        commit_copies()
        wait_for_copies()
        publish()
        barrier()

    def _by_columns(
        self, block: Index, following: Index, held: list[ir.Value], storing: StreamedStoring
    ) -> list[ir.Value]:
        is_ahead = self._schedule.loads_ahead(self._packing.shape)
        ahead = self._load_ahead(following, held) if is_ahead else None
        (fragments,), scales = self._fragments(held, 0, None)
        rows = _held(fragments)
        with loop(self._schedule.block_columns, self._together, "column") as first:
            sums = self._multiplied(first, rows)
            self._store(block, first, sums.landed(), scales, storing)
        return self._load_ahead(following, held) if ahead is None else ahead

    def _exists(self, block: Index) -> Condition:
        is_whole = self._blocks.known is not None and self._blocks.known % WARPS == 0
        return Condition(True) if is_whole else block.less_than(self._blocks)

    @property
    def _together(self) -> int:
        """Columns that are multiplied at once."""
        assert self._schedule.warpgroup_columns is not None
        return self._schedule.warpgroup_columns

    def _multiplied(self, first: Index, rows: Sequence[Sequence[HeldRows]]) -> RunningSums:
        """Starts the products of all steps by columns from the first on."""
        steps = [Step(of_parts, self._operands(first, step)) for step, of_parts in enumerate(rows)]
        summed = self._schedule.summed_block
        together = len(steps) if summed is None else summed // MATRIX_ROWS
        sums = RunningSums.none(self._schedule, self._together)
        for begin in range(0, len(steps), together):
            sums = sums.add(steps[begin : begin + together])
        return sums

    def _operands(self, first: Index, step: int) -> list[Operand]:
        """A step of the columns from the first on, by parts."""
        schedule = self._schedule
        per_stage = schedule.block_reduction // MATRIX_ROWS
        stage, within = divmod(step, per_stage)
        row = first + stage * schedule.block_columns
        columns = self._shared_bytes.operand(row * STAGE_ROW_BYTES, schedule.factors)
        return [columns.step(part * per_stage + within) for part in range(schedule.parts)]

    def _store(
        self,
        block: Index,
        first: Index,
        sums: Sequence[Sequence[ir.Value]],
        scales: list[RowScale | None],
        storing: StreamedStoring,
    ) -> None:
        """Finishes the sums of columns from the first on, by parts, of a block that may be one behind the
        last."""
        parts = [_halves(part) for part in sums]
        by_columns: list[list[Sums]] = [
            [[part[number : number + 2] for part in parts]] for number in range(0, len(parts[0]), 2)
        ]
        # Of unknown sizes rows behind the last one aren't stored, and what all rows read is read once.
        exists = Condition(True) if self._packing.shape.unknown_sizes else self._exists(block)
        when(exists, lambda: storing.store(first, by_columns, scales))


def _held(fragments: Fragments) -> list[list[HeldRows]]:
    """Of each step and part, what a thread holds as matrix units take it."""
    return [[HeldRows(_pairs(part)) for part in step] for step in fragments]


def _pairs(fragment: ir.Value) -> list[ir.Value]:
    word = ir.IntegerType.get_signless(32)
    words = ir.VectorType.get([4, 1], word)
    return [vector.extract(vector.bitcast(words, fragment), [], [number, 0]) for number in range(4)]


def _halves(sums: Sequence[ir.Value]) -> list[ir.Value]:
    """A thread's sums as fragments of 16 rows and eight columns."""
    type_ = ir.VectorType.get([2, 2], MATRIX_SUMS.type)
    return [
        vector.from_elements(type_, list(sums[first : first + _HALF_SUMS]))
        for first in range(0, len(sums), _HALF_SUMS)
    ]
