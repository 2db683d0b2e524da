"""The GPU kernel of attention: queries by keys, their softmax and products with values, by blocks of keys.

After Dao et al., FlashAttention (NeurIPS 2022): scores are never in the device's memory. What a block of keys
adds is scaled as soon as a larger score is found (Milakov and Gimelshein, Online normalizer calculation for
softmax, 2018).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import arith, ir, math, vector
from iree.winograd.passes.match.attention import AttentionProblem
from iree.winograd.passes.match.batch_matmul import Matrices
from iree.winograd.pipelines.emission.control_flow import loop_carried, when
from iree.winograd.pipelines.emission.index import Condition, Index
from iree.winograd.pipelines.emission.numbers.f32 import F32
from iree.winograd.pipelines.emission.vectors import broadcast, constant_like
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.gpu.device.memory import (
    QUAD,
    QUAD_BYTES,
    GlobalBuffer,
    SharedBuffer,
    SharedScalars,
    barrier,
    constant_quad,
    lane,
    quad_of,
    thread_id,
    transposed,
    zero_scalar,
)

from .batch_matmul import matrix_origin

_KEYS = 32
"""Of a block, whose scores a workgroup has at a time."""
_THREAD_ROWS = 2
_ACROSS = _KEYS // QUAD
"""Threads that share a row: each has a quad of its scores, and every so many quads of its result."""
_ROWS = (32, 16)
"""Queries of a workgroup: as many as there is memory for, or fewer where they leave few workgroups."""
_WORKGROUPS = 264
"""Two for each multiprocessor of a large GPU."""
_MOST_CHANNELS = 128
"""Of values, and of keys: a thread has registers for what it sums, and for the next keys."""
_LOWEST = float(np.finfo(np.float32).min)

_Combination = Callable[[ir.Value, ir.Value], ir.Value]


@dataclass(frozen=True)
class AttentionKernel:
    """softmax(factor * queries * keys^T) * values, heads read and written wherever they are in memory.

    A workgroup has some queries of one head. Eight threads share two of them. They load the next keys into
    registers while they multiply by values, and values while they multiply by keys.
    """

    problem: AttentionProblem
    rows: int
    """Queries of a workgroup."""

    @staticmethod
    def within(problem: AttentionProblem, shared_memory_bytes: int) -> AttentionKernel | None:
        """For so much memory that a workgroup shares; None where that, or a thread's registers, don't do."""
        if max(problem.scores.reduction, problem.mixtures.columns) > _MOST_CHANNELS:
            return None
        kernels = [AttentionKernel(problem, rows) for rows in _ROWS]
        fitting = [each for each in kernels if each.shared_memory_bytes <= shared_memory_bytes]
        return next((each for each in fitting if each._is_filling), fitting[-1] if fitting else None)

    @property
    def name(self) -> str:
        problem, scores = self.problem, self.problem.scores
        return (
            f"winograd_{'safe_' * problem.safe}attention_{scores.batch}x{scores.rows}x{scores.columns}"
            f"_from_{scores.reduction}_to_{problem.mixtures.columns}"
        )

    @property
    def threads(self) -> int:
        return self.rows // _THREAD_ROWS * _ACROSS

    @property
    def shared_memory_bytes(self) -> int:
        quads = self.rows * self._channel_row + _KEYS * self._stage_row + self.rows * (_ACROSS + 1)
        return quads * QUAD_BYTES + self.rows * _ACROSS * F32.bytes

    @property
    def _is_filling(self) -> bool:
        """Whether there are workgroups for all of a large GPU."""
        scores = self.problem.scores
        return scores.batch * ceil_div(scores.rows, self.rows) >= _WORKGROUPS

    @property
    def _channel_quads(self) -> int:
        return ceil_div(self.problem.scores.reduction, QUAD)

    @property
    def _channel_row(self) -> int:
        """Quads from a row of shared memory to the next: the same quad of each row is in other banks."""
        return self._channel_quads + 1

    @property
    def _result_quads(self) -> int:
        """Of a row of a thread."""
        return ceil_div(self.problem.mixtures.columns, QUAD * _ACROSS)

    @property
    def _stage_row(self) -> int:
        """Of keys, or of values, which take the same memory in turn."""
        return max(self._channel_row, self._result_quads * _ACROSS)

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index]:
        """Blocks of queries, heads."""
        del sizes
        scores = self.problem.scores
        return Index(ceil_div(scores.rows, self.rows)), Index(scores.batch)

    def emit(
        self,
        work: Work,
        queries: GlobalBuffer,
        keys: GlobalBuffer,
        values: GlobalBuffer,
        output: GlobalBuffer,
    ) -> None:
        """Emits the work of one workgroup."""
        _Workgroup(self, work, (queries, keys, values)).emit(output)

    def rows_of(self, buffers: Sequence[GlobalBuffer], head: Index, first: Index) -> list[_Rows]:
        """Queries from `first` on, a block of keys, and one of values, of a head."""
        scores, mixtures = self.problem.scores, self.problem.mixtures
        left, right, mixed = scores.left, scores.right, mixtures.right
        queries, keys, values = buffers
        # Keys lie so that the four of a thread are apart: neighbouring threads' are in neighbouring rows.
        return [
            _Rows(
                queries,
                matrix_origin(left, head) + first * left.row_stride,
                Index(scores.rows) - first,
                scores.reduction,
                (left.row_stride, left.column_stride),
                (self.rows, self._channel_quads),
                self.threads,
            ),
            _Rows(
                keys,
                matrix_origin(right, head),
                Index(scores.columns),
                scores.reduction,
                (right.column_stride, right.row_stride),
                (_KEYS, self._channel_quads),
                self.threads,
                is_interleaved=True,
            ),
            _Rows(
                values,
                matrix_origin(mixed, head),
                Index(scores.columns),
                mixtures.columns,
                (mixed.row_stride, mixed.column_stride),
                (_KEYS, self._result_quads * _ACROSS),
                self.threads,
            ),
        ]


def reads_quads(matrices: Matrices, *, of_columns: bool) -> bool:
    """Whether what lies side by side in a row, or of a right operand in a column, begins at whole quads."""
    row, column = matrices.row_stride, matrices.column_stride
    inner, outer = (row, column) if of_columns else (column, row)
    strides = [matrices.first, outer, *(stride for _, stride in matrices.batch)]
    return inner == 1 and not any(stride % QUAD for stride in strides)


@dataclass(frozen=True)
class _Rows:
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

    @property
    def loads(self) -> int:
        """Of a thread."""
        return ceil_div(self.extents[0] * self.extents[1], self.threads)

    def _places(self) -> Iterator[tuple[Index, Index, Condition]]:
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
        return [self._load(first + self._row(place), quad * QUAD) for place, quad, _ in self._places()]

    def _row(self, place: Index) -> Index:
        return place % _ACROSS * QUAD + place // _ACROSS if self.is_interleaved else place

    def _load(self, row: Index, column: Index) -> ir.Value:
        exists = row.less_than(self.count)
        start = self.origin + row.minimum(self.count - 1) * self.strides[0]
        if self.buffer.by_quads:
            inside = exists if self._is_whole else exists & column.less_than(self.length)
            column = column if self._is_whole else column.minimum(self.length - QUAD)
            return self.buffer.load(start + column, valid=inside)
        elements = []
        for i in range(QUAD):
            inside = exists if self._is_whole else exists & (column + i).less_than(self.length)
            place = column + i if self._is_whole else (column + i).minimum(self.length - 1)
            elements.append(_selected(inside, self.buffer.load_scalar(start + place * self.strides[1])))
        return quad_of(elements)

    @property
    def _is_whole(self) -> bool:
        """Whether a row has all elements of its quads."""
        return self.length == self.extents[1] * QUAD

    def store(self, quads: Sequence[ir.Value], memory: SharedBuffer) -> None:
        """Leaves them in shared memory."""
        for value, (row, quad, exists) in zip(quads, self._places(), strict=True):
            when(exists, lambda value=value, at=(row, quad): memory.store(value, at))  # type: ignore[misc]


class _Workgroup:
    """One workgroup, as one of its threads sees it.

    What it carries from one block of keys to the next are the block's quads of keys, the largest scores of
    its rows so far, its share of the sums of their exponentials, and its quads of the result.
    """

    def __init__(self, kernel: AttentionKernel, work: Work, buffers: Sequence[GlobalBuffer]) -> None:
        self._kernel, self._head, self._first = kernel, work.workgroup[1], work.workgroup[0] * kernel.rows
        self._queries, self._keys, self._values = kernel.rows_of(buffers, self._head, self._first)
        self._element = buffers[0].computed
        self._row, self._column = thread_id() // _ACROSS * _THREAD_ROWS, thread_id() % _ACROSS
        self._of_queries = self._allocate(kernel._channel_row, kernel.rows, "queries")
        self._stage = self._allocate(kernel._stage_row, _KEYS, "stage")
        self._weights = self._allocate(_ACROSS + 1, kernel.rows, "weights")
        self._shared = SharedScalars.allocate((kernel.rows, _ACROSS), "exchange", self._element)

    def _allocate(self, quads: int, rows: int, name: str) -> SharedBuffer:
        return SharedBuffer.allocate((rows, quads), name, self._element)

    @cached_property
    def _rows(self) -> list[Index]:
        """This thread's, in the block."""
        return [self._row + i for i in range(_THREAD_ROWS)]

    def emit(self, output: GlobalBuffer) -> None:
        scores, mixtures = self._kernel.problem.scores, self._kernel.problem.mixtures
        self._queries.store(self._queries.load(Index(0)), self._of_queries)
        zero = zero_scalar(self._element)
        result = [constant_quad(0.0, self._element)] * (_THREAD_ROWS * self._kernel._result_quads)
        lowest = [constant_like(zero, _LOWEST)] * _THREAD_ROWS
        begin = [*self._keys.load(Index(0)), *lowest, *[zero] * _THREAD_ROWS, *result]
        values = loop_carried(scores.columns, _KEYS, begin, self._add_block, "keys")
        _, _, sums, mixed = self._split(values)
        for i, row in enumerate(self._rows):
            total = self._over_row(sums[i], row, arith.addf)
            if self._kernel.problem.safe:
                is_none = arith.cmpf(arith.CmpFPredicate.OEQ, total, zero)
                total = arith.select(is_none, constant_like(zero, 1.0), total)
            inverse = arith.divf(constant_like(zero, mixtures.factor), total)
            quads = [arith.mulf(each, broadcast(inverse, QUAD)) for each in self._of_row(mixed, i)]
            exists = (self._first + row).less_than(scores.rows)
            when(exists, lambda row=row, quads=quads: self._store(row, quads, output))  # type: ignore[misc]

    def _split(self, values: Sequence[ir.Value]) -> list[list[ir.Value]]:
        """What is carried: keys, largest scores, sums and quads of the result."""
        counts = [self._keys.loads, _THREAD_ROWS, _THREAD_ROWS, _THREAD_ROWS * self._kernel._result_quads]
        ends = [sum(counts[: i + 1]) for i in range(len(counts))]
        return [list(values[end - count : end]) for count, end in zip(counts, ends, strict=True)]

    def _of_row(self, result: list[ir.Value], row: int) -> list[ir.Value]:
        quads = self._kernel._result_quads
        return result[row * quads : (row + 1) * quads]

    def _add_block(self, first: Index, values: list[ir.Value]) -> list[ir.Value]:
        keys, largest, sums, result = self._split(values)
        self._keys.store(keys, self._stage)
        barrier()
        following = self._values.load(first)
        scores = [self._existing(first, each) for each in self._scores()]
        for row, score in zip(self._rows, scores, strict=True):
            self._shared.store(_over_quad(score, arith.maximumf), [row, self._column])
        # Nobody reads the keys any more.
        barrier()
        self._values.store(following, self._stage)
        largest_now, scales = [], []
        for i, row in enumerate(self._rows):
            found = [largest[i], *self._exchanged(row)]
            largest_now.append(reduce(arith.maximumf, found))
            scales.append(math.exp(arith.subf(largest[i], largest_now[i])))
            weights = math.exp(arith.subf(scores[i], broadcast(largest_now[i], QUAD)))
            self._weights.store(weights, [row, self._column])
            own = _over_quad(weights, arith.addf)
            sums[i] = arith.addf(arith.mulf(sums[i], scales[i]), own)
        barrier()
        keys = self._keys.load(first + _KEYS)
        scaled = [
            arith.mulf(each, broadcast(scales[i], QUAD))
            for i in range(_THREAD_ROWS)
            for each in self._of_row(result, i)
        ]
        result = self._mixed(scaled)
        # Nobody reads values and weights any more.
        barrier()
        return [*keys, *largest_now, *sums, *result]

    def _scores(self) -> list[ir.Value]:
        """For each row the scores of this thread's quad of keys."""

        def step(quad: Index, sums: list[ir.Value]) -> list[ir.Value]:
            # The four keys of this thread lie apart, each beside its neighbours' of the same number.
            keys = [self._stage.load([self._column + _ACROSS * j, quad]) for j in range(QUAD)]
            channels = transposed(keys)
            for i, row in enumerate(self._rows):
                query = self._of_queries.load([row, quad])
                for c in range(QUAD):
                    sums[i] = vector.fma(broadcast(lane(query, c), QUAD), channels[c], sums[i])
            return sums

        zeros = [constant_quad(0.0, self._element)] * _THREAD_ROWS
        sums = loop_carried(self._kernel._channel_quads, 1, zeros, step, "channels")
        factor = self._kernel.problem.scores.factor
        return [arith.mulf(each, constant_quad(factor, self._element)) for each in sums]

    def _existing(self, first: Index, scores: ir.Value) -> ir.Value:
        """Minus infinity for keys behind the last one."""
        count = self._kernel.problem.scores.columns
        if count % _KEYS == 0:
            return scores
        none = constant_like(lane(scores, 0), -np.inf)
        key = first + self._column * QUAD
        return quad_of(
            [arith.select((key + j).less_than(count).value, lane(scores, j), none) for j in range(QUAD)]
        )

    def _mixed(self, result: list[ir.Value]) -> list[ir.Value]:
        """Adds what the block's weights mix of its values."""
        count = self._kernel._result_quads

        def step(quad: Index, sums: list[ir.Value]) -> list[ir.Value]:
            weights = [self._weights.load([row, quad]) for row in self._rows]
            for c in range(QUAD):
                for j in range(count):
                    value = self._stage.load([quad * QUAD + c, self._column + _ACROSS * j])
                    for i in range(_THREAD_ROWS):
                        weight = broadcast(lane(weights[i], c), QUAD)
                        sums[i * count + j] = vector.fma(weight, value, sums[i * count + j])
            return sums

        return loop_carried(_ACROSS, 1, result, step, "mixed")

    def _over_row(self, share: ir.Value, row: Index, combine: _Combination) -> ir.Value:
        """What the shares of a row's threads are combined to."""
        self._shared.store(share, [row, self._column])
        barrier()
        return reduce(combine, self._exchanged(row))

    def _exchanged(self, row: Index) -> list[ir.Value]:
        """What each thread of a row left there."""
        return [self._shared.load([row, i]) for i in range(_ACROSS)]

    def _store(self, row: Index, quads: Sequence[ir.Value], output: GlobalBuffer) -> None:
        mixtures = self._kernel.problem.mixtures
        written = mixtures.output
        start = matrix_origin(written, self._head) + (self._first + row) * written.row_stride
        for j, quad in enumerate(quads):
            column = (self._column + j * _ACROSS) * QUAD
            for i in range(QUAD):
                place = column + i
                exists = Condition(True) if self._values._is_whole else place.less_than(mixtures.columns)
                offset = start + place * written.column_stride
                value = lane(quad, i)
                when(exists, lambda v=value, at=offset: output.store_scalar(v, at))  # type: ignore[misc]


def _over_quad(quad: ir.Value, combine: _Combination) -> ir.Value:
    return reduce(combine, [lane(quad, i) for i in range(QUAD)])


def _selected(condition: Condition, value: ir.Value) -> ir.Value:
    if condition.known:
        return value
    return arith.select(condition.value, value, zero_scalar(value.type))
