"""Blocks of keys and values in shared memory for warpgroups: how they come there, and barriers.

Barriers say of each stage's place that it is full, or empty again: a block comes while warpgroups are at
those before it, not all at the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.passes.match.products.attention import AttentionProblem
from iree.winograd.passes.match.products.batch_matmul import Matrices
from iree.winograd.pipelines.emission.control_flow import when
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.numbers.f32 import F32
from iree.winograd.pipelines.emission.vectors import vector_type
from iree.winograd.pipelines.gpu.device.matrix_unit import COPIED, WARP_THREADS
from iree.winograd.pipelines.gpu.device.memory import QUAD, GlobalBuffer, thread_id, zero_scalar
from iree.winograd.pipelines.gpu.device.shuffles import of_first_thread
from iree.winograd.pipelines.gpu.device.warpgroup import (
    BARRIER_BYTES,
    COPIED_BYTES,
    REDUCTION,
    WARPGROUP_ROWS,
    WARPGROUP_THREADS,
    Barrier,
    Operand,
    SharedBytes,
    publish,
    synchronize_warp,
)
from iree.winograd.pipelines.gpu.kernels.matrix_products.moved_rows import MovedRows
from iree.winograd.pipelines.gpu.schedules.attention import SharedChunks, WarpgroupAttentionSchedule

_EIGHT_ROWS = 8 * COPIED_BYTES
_STEP_CHUNKS = REDUCTION // COPIED


@dataclass(frozen=True)
class HeadRows:
    """The rows of a head in the device's memory: queries, keys or values."""

    buffer: GlobalBuffer
    matrices: Matrices
    stride: int
    """From a row to the next."""
    count: int
    channels: int

    @staticmethod
    def of(problem: AttentionProblem, buffers: Sequence[GlobalBuffer]) -> list[HeadRows]:
        """Queries, keys and values."""
        scores, mixtures = problem.scores, problem.mixtures
        left, right, values = scores.left, scores.right, mixtures.right
        return [
            HeadRows(buffer, matrices, stride, count, channels)
            for buffer, matrices, stride, count, channels in zip(
                buffers,
                (left, right, values),
                (left.row_stride, right.column_stride, values.row_stride),
                (scores.rows, scores.columns, scores.columns),
                (scores.reduction, scores.reduction, mixtures.columns),
                strict=True,
            )
        ]


class Blocks:
    """Queries, keys and values of a workgroup, as one of its threads sees them.

    All threads move them through registers, as they carry them from block to block.
    """

    _full, _empty = 0, 1
    """Kinds of barriers."""

    def __init__(
        self,
        problem: AttentionProblem,
        schedule: WarpgroupAttentionSchedule,
        buffers: Sequence[GlobalBuffer],
        head: Index,
    ) -> None:
        self._problem, self._schedule = problem, schedule
        self._factors = buffers[0].number
        self._shared = SharedBytes.allocate(schedule.shared_memory_bytes(problem), "attention")
        self._of_queries = schedule.query_chunks(problem)
        self._of_keys, self._of_values = schedule.key_chunks(problem), schedule.value_chunks(problem)
        self._stages, self._stage_bytes = self._of_queries.bytes, schedule.stage_bytes(problem)
        self._barriers = self._stages + schedule.stages * self._stage_bytes
        self._warpgroup = of_first_thread(thread_id() // WARPGROUP_THREADS)
        self._lane = thread_id() % WARP_THREADS
        self._moved_queries, self._moved_keys, self._moved_values = (
            MovedRows.of(
                rows.buffer, rows.matrices, rows.stride, head, rows.count, rows.channels, to, schedule.threads
            )
            for rows, to in zip(
                HeadRows.of(problem, buffers),
                (self._of_queries, self._of_keys, self._of_values),
                strict=True,
            )
        )

    def initialize(self) -> None:
        """Initializes barriers, by one thread."""
        for place in range(self._schedule.stages):
            for kind in (self._full, self._empty):
                self._barrier(kind, Index(place)).initialize(arrivals=self._schedule.threads // WARP_THREADS)

    def wait(self, first: Index) -> None:
        """Waits until keys and values of a block are here, and queries."""
        place, parity = self._position(first)
        self._barrier(self._full, place).wait(parity)

    def release(self, first: Index) -> None:
        """This warp is done with a block."""
        self._arrive_by_warp(self._empty, first)

    def begin(self, first_query: Index) -> list[ir.Value]:
        """Moves queries and the first block; gives this thread's chunks of the second one."""
        queries, loaded = self._moved_queries.load(first_query), self._load(Index(0))
        self._moved_queries.store(queries, self._shared, 0)
        self._store(Index(0), loaded)
        return self._load_following(Index(0))

    def move_following(self, first: Index, loaded: Sequence[ir.Value]) -> list[ir.Value]:
        """Leaves the block behind one, of which this thread has loaded its chunks, in shared memory.

        Gives this thread's chunks of the block behind that.
        """
        following = first + self._schedule.keys
        when(following.less_than(self._problem.scores.columns), lambda: self._store(following, loaded))
        return self._load_following(following)

    def clear_channels(self) -> None:
        """Zeros for the channels behind those of queries, and of keys in all stages."""
        first = self._problem.scores.reduction // COPIED
        zeros = arith.constant(
            (type_ := vector_type(QUAD, F32.type)),
            ir.DenseElementsAttr.get_splat(type_, ir.FloatAttr.get(F32.type, 0.0)),
        )
        stages = [self._stages + i * self._stage_bytes for i in range(self._schedule.stages)]
        for place, of in ((0, self._of_queries), *((place, self._of_keys) for place in stages)):
            for chunk in range(first, of.count):
                for begin in range(0, of.rows, self._schedule.threads):
                    row = thread_id() + begin
                    offset = of.place(row, Index(chunk)) + place
                    when(
                        row.less_than(of.rows),
                        lambda offset=offset: self._shared.store(zeros, offset),  # type: ignore[misc]
                    )

    # Operands

    @property
    def steps(self) -> int:
        """Of 16 channels that queries and keys are multiplied by."""
        return self._of_queries.count // _STEP_CHUNKS

    def queries(self) -> list[Operand]:
        """Those of this thread's warpgroup, of each step."""
        return self._rows(self._warpgroup * (WARPGROUP_ROWS * COPIED_BYTES), self._of_queries)

    def keys(self, first: Index) -> list[Operand]:
        """Those of a block, of each step."""
        return self._rows(self._place(first), self._of_keys)

    def _rows(self, place: Index, chunks: SharedChunks) -> list[Operand]:
        rows = self._shared.gathered_operand(place, chunks.distance, _EIGHT_ROWS, self._factors)
        return [rows.behind(step * _STEP_CHUNKS * chunks.distance) for step in range(self.steps)]

    def values(self, first: Index, steps: int) -> list[Operand]:
        """Those of a block, of each 16 keys."""
        place, distance = self._place(first) + self._of_keys.bytes, self._of_values.distance
        columns = self._shared.transposed_operand(place, distance, _EIGHT_ROWS, self._factors)
        return [columns.behind(step * REDUCTION * COPIED_BYTES) for step in range(steps)]

    def _position(self, first: Index) -> tuple[Index, Index]:
        """The number of a block's place, and the parity of its turn there."""
        number = first // self._schedule.keys
        return number % self._schedule.stages, number // self._schedule.stages % 2

    def _place(self, first: Index) -> Index:
        return self._position(first)[0] * self._stage_bytes + self._stages

    def _barrier(self, kind: int, place: Index) -> Barrier:
        behind = self._barriers + kind * self._schedule.stages * BARRIER_BYTES
        return self._shared.barrier(place * BARRIER_BYTES + behind)

    def _arrive_by_warp(self, kind: int, first: Index) -> None:
        barrier = self._barrier(kind, self._position(first)[0])
        when(self._lane.less_than(1), barrier.arrive)

    def _load(self, first: Index) -> list[ir.Value]:
        """This thread's chunks of keys, and behind them those of values."""
        return [*self._moved_keys.load(first), *self._moved_values.load(first)]

    def _load_following(self, first: Index) -> list[ir.Value]:
        """Those of the block behind one, some others if there is none."""
        following = first + self._schedule.keys
        if following.less_than(self._problem.scores.columns).known is False:
            return [zero_scalar(F32.type)] * (QUAD * (self._moved_keys.loads + self._moved_values.loads))
        return self._load(following)

    def _store(self, first: Index, loaded: Sequence[ir.Value]) -> None:
        """Leaves a block in its place, as soon as what was there isn't read any more."""
        place, parity = self._position(first)
        # In the first turn there is nothing to wait for.
        self._barrier(self._empty, place).wait(parity ^ 1)
        to, of_keys = self._place(first), QUAD * self._moved_keys.loads
        self._moved_keys.store(loaded[:of_keys], self._shared, to)
        self._moved_values.store(loaded[of_keys:], self._shared, to + self._of_keys.bytes)
        publish()
        synchronize_warp()
        self._arrive_by_warp(self._full, first)
