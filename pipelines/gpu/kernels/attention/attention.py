"""What the kernels of attention have in common: the problem, and rows on their way to shared memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.passes.match.products.attention import AttentionProblem
from iree.winograd.passes.match.products.batch_matmul import Matrices
from iree.winograd.pipelines.emission.control_flow import when
from iree.winograd.pipelines.emission.index import Condition, Index
from iree.winograd.pipelines.emission.vectors import constant_like
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.gpu.device.memory import QUAD, GlobalBuffer, quad_of, thread_id, zero_scalar
from iree.winograd.pipelines.gpu.kernels.matrix_products.batch_matmul import matrix_origin
from iree.winograd.pipelines.gpu.schedules.attention import AttentionSchedule

LOWEST = float(np.finfo(np.float32).min)
"""What the largest score of a row is at first. From minus infinity, minus infinity would be no number."""


@dataclass(frozen=True)
class AttentionKernel(ABC):
    """softmax(factor * queries * keys^T + masks) * values, of heads read and written where they are."""

    problem: AttentionProblem
    schedule: AttentionSchedule

    @property
    def name(self) -> str:
        problem, scores = self.problem, self.problem.scores
        kind = "safe_" * problem.safe + "masked_" * bool(problem.masks)
        return (
            f"winograd_{kind}attention_{scores.batch}x{scores.rows}x{scores.columns}"
            f"_from_{scores.reduction}_to_{problem.mixtures.columns}"
        )

    @property
    def writes_quads(self) -> bool:
        """Whether threads write four neighbours of a row at once, where they lie so in memory."""
        return False

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index]:
        """Blocks of queries, heads."""
        del sizes
        scores = self.problem.scores
        return Index(ceil_div(scores.rows, self.schedule.queries)), Index(scores.batch)

    @abstractmethod
    def emit(
        self,
        work: Work,
        queries: GlobalBuffer,
        keys: GlobalBuffer,
        values: GlobalBuffer,
        *masks_and_output: GlobalBuffer,
    ) -> None:
        """Emits the work of one workgroup."""

    def inverse_of(self, total: ir.Value) -> ir.Value:
        """What the results of a row are multiplied by, whose exponentials have such a sum."""
        if self.problem.safe:
            is_none = arith.cmpf(arith.CmpFPredicate.OEQ, total, constant_like(total, 0.0))
            total = arith.select(is_none, constant_like(total, 1.0), total)
        return arith.divf(constant_like(total, self.problem.mixtures.factor), total)


@dataclass(frozen=True)
class Masks:
    """The masks of a head's scores, in f32: what is added, and minus infinity for keys that are hidden."""

    problem: AttentionProblem
    buffers: Sequence[GlobalBuffer]
    head: Index

    def load(self, query: Index, key: Index) -> list[ir.Value]:
        """Those of one score, or some others for queries and keys behind the last ones."""
        scores = self.problem.scores
        row, column = query.minimum(scores.rows - 1), key.minimum(scores.columns - 1)
        return [
            buffer.load_scalar(
                matrix_origin(rows.matrices, self.head) + row * rows.matrices.row_stride + column
            )
            for buffer, rows in zip(self.buffers, self.problem.masks, strict=True)
        ]

    def masked(self, score: ir.Value, loaded: Sequence[ir.Value]) -> ir.Value:
        """A score, multiplied by its factor, with these masks."""
        for mask, rows in zip(loaded, self.problem.masks, strict=True):
            if rows.is_truth:
                # Not added: a score may be infinite, too.
                none = constant_like(score, -np.inf)
                score = arith.select(arith.cmpf(arith.CmpFPredicate.OEQ, mask, none), none, score)
            else:
                score = arith.addf(score, mask)
        return score


def reads_quads(matrices: Matrices, *, of_columns: bool) -> bool:
    """Whether what lies side by side in a row, or of a right operand in a column, begins at whole quads."""
    row, column = matrices.row_stride, matrices.column_stride
    inner, outer = (row, column) if of_columns else (column, row)
    strides = [matrices.first, outer, *(stride for _, stride in matrices.batch)]
    return inner == 1 and not any(stride % QUAD for stride in strides)


class QuadMemory(Protocol):
    """Shared memory that rows are left in."""

    def store(self, value: ir.Value, indices: Sequence[Index]) -> None:
        """Writes a quad, by its row and its number there."""


@dataclass(frozen=True)
class Rows:
    """Rows of a matrix that threads bring to shared memory, each some quads of them."""

    buffer: GlobalBuffer
    origin: Index
    count: Index
    """Of rows that there are."""
    length: int
    strides: tuple[int, int]
    """Elements from a row to the next, and within one."""
    extents: tuple[int, int]
    """Rows, and quads of each, in shared memory."""
    threads: int
    is_interleaved: bool = False
    """Whether neighbours in memory are eight rows apart in shared memory, and not next to each other."""

    @staticmethod
    def of_queries(
        kernel: AttentionKernel, buffer: GlobalBuffer, head: Index, first: Index, quads: int
    ) -> Rows:
        """Those of a workgroup, from `first` on."""
        scores, schedule = kernel.problem.scores, kernel.schedule
        left = scores.left
        return Rows(
            buffer,
            matrix_origin(left, head) + first * left.row_stride,
            Index(scores.rows) - first,
            scores.reduction,
            (left.row_stride, left.column_stride),
            (schedule.queries, quads),
            schedule.threads,
        )

    @staticmethod
    def of_keys(
        kernel: AttentionKernel,
        buffer: GlobalBuffer,
        head: Index,
        quads: int,
        *,
        is_interleaved: bool = False,
    ) -> Rows:
        """All of a head, which are brought by blocks."""
        scores, schedule = kernel.problem.scores, kernel.schedule
        return Rows(
            buffer,
            matrix_origin(scores.right, head),
            Index(scores.columns),
            scores.reduction,
            (scores.right.column_stride, scores.right.row_stride),
            (schedule.keys, quads),
            schedule.threads,
            is_interleaved,
        )

    @staticmethod
    def of_values(kernel: AttentionKernel, buffer: GlobalBuffer, head: Index, quads: int) -> Rows:
        """The same."""
        mixtures, schedule = kernel.problem.mixtures, kernel.schedule
        return Rows(
            buffer,
            matrix_origin(mixtures.right, head),
            Index(kernel.problem.scores.columns),
            mixtures.columns,
            (mixtures.right.row_stride, mixtures.right.column_stride),
            (schedule.keys, quads),
            schedule.threads,
        )

    def parts_of_channels(self, count: int) -> list[Rows]:
        """So many parts of each row's quads, all as long."""
        quads = self.extents[1] // count
        elements = quads * QUAD
        return [
            replace(
                self,
                origin=self.origin + part * elements * self.strides[1],
                length=min(elements, self.length - part * elements),
                extents=(self.extents[0], quads),
            )
            for part in range(count)
        ]

    @property
    def loads(self) -> int:
        """Of a thread."""
        return ceil_div(self.extents[0] * self.extents[1], self.threads)

    def places(self) -> Iterator[tuple[Index, Index, Condition]]:
        """This thread's quads: the row, the quad in it, and whether they are any."""
        rows, quads = self.extents
        for i in range(self.loads):
            number = thread_id() + i * self.threads
            exists = Condition(True)
            if (i + 1) * self.threads > rows * quads:
                exists, number = number.less_than(rows * quads), number.minimum(rows * quads - 1)
            if self.strides[1] == 1:
                yield number // quads, number % quads, exists
            else:
                yield number % rows, number // rows, exists

    def load(self, first: Index) -> list[ir.Value]:
        """This thread's quads of the rows from `first` on, zeros for what isn't there."""
        return [self._load(first + self._row(place), quad * QUAD) for place, quad, _ in self.places()]

    def _row(self, place: Index) -> Index:
        return place % self._apart * QUAD + place // self._apart if self.is_interleaved else place

    @property
    def _apart(self) -> int:
        return self.extents[0] // QUAD

    def start(self, row: Index) -> Index:
        """Where a row of a block begins in memory that has rows at all: the last one for those behind it."""
        is_whole = self.count.known is not None and self.count.known % self.extents[0] == 0
        return self._start(row if is_whole else row.minimum(self.count - 1))

    def _start(self, row: Index) -> Index:
        return self.origin + row * self.strides[0]

    def quad_of_row(self, row: Index, quad: Index) -> ir.Value:
        """A quad of a row of the first block, of the last row for those behind it."""
        if self.buffer.by_quads and self.is_whole:
            return self.buffer.load(self.start(row) + quad * QUAD)
        return self._load(row, quad * QUAD)

    def _load(self, row: Index, column: Index) -> ir.Value:
        exists = row.less_than(self.count)
        start = self._start(row.minimum(self.count - 1))
        if self.buffer.by_quads:
            inside = exists if self.is_whole else exists & column.less_than(self.length)
            column = column if self.is_whole else column.minimum(self.length - QUAD)
            return self.buffer.load(start + column, valid=inside)
        elements = []
        for i in range(QUAD):
            inside = exists if self.is_whole else exists & (column + i).less_than(self.length)
            place = column + i if self.is_whole else (column + i).minimum(self.length - 1)
            elements.append(_selected(inside, self.buffer.load_scalar(start + place * self.strides[1])))
        return quad_of(elements)

    @property
    def is_whole(self) -> bool:
        """Whether a row has all elements of its quads."""
        return self.length == self.extents[1] * QUAD

    def store(self, quads: Sequence[ir.Value], memory: QuadMemory) -> None:
        """Leaves them in shared memory."""
        for value, (row, quad, exists) in zip(quads, self.places(), strict=True):
            when(exists, lambda value=value, at=(row, quad): memory.store(value, at))  # type: ignore[misc]


def _selected(condition: Condition, value: ir.Value) -> ir.Value:
    if condition.known:
        return value
    return arith.select(condition.value, value, zero_scalar(value.type))
