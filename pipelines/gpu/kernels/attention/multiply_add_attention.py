"""The GPU kernel of attention by multiply-adds: scores, softmax and products with values, by blocks of keys.

After Dao et al., FlashAttention (NeurIPS 2022): scores are never in the device's memory. What a block of keys
adds is scaled as soon as a larger score is found (Milakov and Gimelshein, Online normalizer calculation for
softmax, 2018).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce

import numpy as np
from iree.winograd.dialect.bindings import arith, ir, math, vector
from iree.winograd.pipelines.emission.control_flow import loop_carried, when
from iree.winograd.pipelines.emission.index import Condition, Index, IndexLike
from iree.winograd.pipelines.emission.vectors import broadcast, constant_like
from iree.winograd.pipelines.emission.work import Work
from iree.winograd.pipelines.gpu.device.memory import (
    QUAD,
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
from iree.winograd.pipelines.gpu.kernels.matrix_products.batch_matmul import matrix_origin
from iree.winograd.pipelines.gpu.schedules.attention import MultiplyAddAttentionSchedule

from .attention import LOWEST, AttentionKernel, Masks, Rows

_ACROSS = MultiplyAddAttentionSchedule.across
_THREAD_ROWS = MultiplyAddAttentionSchedule.thread_queries

_Combination = Callable[[ir.Value, ir.Value], ir.Value]


@dataclass(frozen=True)
class MultiplyAddAttentionKernel(AttentionKernel):
    """A workgroup has some queries of one head. Eight threads share two of them.

    They load the next keys into registers while they multiply by values, and values while they multiply by
    keys.
    """

    schedule: MultiplyAddAttentionSchedule

    def emit(
        self,
        work: Work,
        queries: GlobalBuffer,
        keys: GlobalBuffer,
        values: GlobalBuffer,
        *masks_and_output: GlobalBuffer,
    ) -> None:
        """Emits the work of one workgroup."""
        *masks, output = masks_and_output
        _Workgroup(self, work, (queries, keys, values), masks).emit(output)


@dataclass(frozen=True)
class _Lines:
    """Rows of so many quads in shared memory."""

    memory: SharedBuffer
    row_quads: int

    def load(self, indices: Sequence[IndexLike]) -> ir.Value:
        return self.memory.load([self._at(indices)])

    def store(self, value: ir.Value, indices: Sequence[IndexLike]) -> None:
        self.memory.store(value, [self._at(indices)])

    def _at(self, indices: Sequence[IndexLike]) -> Index:
        row, quad = indices
        return Index.of(row) * self.row_quads + quad


_Stage = SharedBuffer | _Lines


class _Workgroup:
    """One workgroup, as one of its threads sees it.

    What it carries from one block of keys to the next are the block's quads of keys, the largest scores of
    its rows so far, its share of the sums of their exponentials, and its quads of the result.
    """

    def __init__(
        self,
        kernel: MultiplyAddAttentionKernel,
        work: Work,
        buffers: Sequence[GlobalBuffer],
        masks: Sequence[GlobalBuffer],
    ) -> None:
        self._kernel, self._head = kernel, work.workgroup[1]
        problem, schedule = kernel.problem, kernel.schedule
        self._first = work.workgroup[0] * schedule.queries
        self._channel_quads = schedule.channel_row(problem) - 1
        self._result_quads = schedule.result_quads(problem)
        queries, keys, values = buffers
        self._masks = Masks(problem, masks, self._head)
        self._queries = Rows.of_queries(kernel, queries, self._head, self._first, self._channel_quads)
        # Keys lie so that the four of a thread are apart: neighbouring threads' are in neighbouring rows.
        self._parts = schedule.stage_parts
        self._keys = Rows.of_keys(
            kernel, keys, self._head, self._channel_quads, is_interleaved=True
        ).parts_of_channels(self._parts)
        whole = Rows.of_values(kernel, values, self._head, self._result_quads * _ACROSS)
        self._values = replace(whole, extents=(schedule.keys // self._parts, whole.extents[1]))
        self._element = queries.computed
        self._row, self._column = thread_id() // _ACROSS * _THREAD_ROWS, thread_id() % _ACROSS
        self._of_queries = (
            self._allocate(schedule.channel_row(problem), schedule.queries, "queries")
            if schedule.shares_queries
            else None
        )
        self._staged_keys, self._staged_values = self._stages()
        self._weights = self._allocate(_ACROSS + 1, schedule.queries, "weights")
        self._shared = SharedScalars.allocate((schedule.queries, _ACROSS), "exchange", self._element)

    def _stages(self) -> tuple[_Stage, _Stage]:
        """The memory of keys and of values, which is the same."""
        problem, schedule = self._kernel.problem, self._kernel.schedule
        if self._parts == 1:
            stage = self._allocate(schedule.stage_row(problem), schedule.keys, "stage")
            return stage, stage
        quads = SharedBuffer.allocate((schedule.stage_quads(problem),), "stage", self._element)
        return _Lines(quads, schedule.key_row(problem)), _Lines(quads, schedule.value_row(problem))

    def _allocate(self, quads: int, rows: int, name: str) -> SharedBuffer:
        return SharedBuffer.allocate((rows, quads), name, self._element)

    @cached_property
    def _rows(self) -> list[Index]:
        """This thread's, in the block."""
        return [self._row + i for i in range(_THREAD_ROWS)]

    def emit(self, output: GlobalBuffer) -> None:
        scores = self._kernel.problem.scores
        if self._of_queries is not None:
            self._queries.store(self._queries.load(Index(0)), self._of_queries)
        zero = zero_scalar(self._element)
        result = [constant_quad(0.0, self._element)] * (_THREAD_ROWS * self._result_quads)
        lowest = [constant_like(zero, LOWEST)] * _THREAD_ROWS
        begin = [*self._keys[0].load(Index(0)), *lowest, *[zero] * _THREAD_ROWS, *result]
        values = loop_carried(scores.columns, self._kernel.schedule.keys, begin, self._add_block, "keys")
        _, _, sums, mixed = self._split(values)
        for i, row in enumerate(self._rows):
            total = self._over_row(sums[i], row, arith.addf)
            inverse = self._kernel.inverse_of(total)
            quads = [arith.mulf(each, broadcast(inverse, QUAD)) for each in self._of_row(mixed, i)]
            exists = (self._first + row).less_than(scores.rows)
            when(exists, lambda row=row, quads=quads: self._store(row, quads, output))  # type: ignore[misc]

    def _split(self, values: Sequence[ir.Value]) -> list[list[ir.Value]]:
        """What is carried: keys, largest scores, sums and quads of the result."""
        counts = [self._keys[0].loads, _THREAD_ROWS, _THREAD_ROWS, _THREAD_ROWS * self._result_quads]
        ends = [sum(counts[: i + 1]) for i in range(len(counts))]
        return [list(values[end - count : end]) for count, end in zip(counts, ends, strict=True)]

    def _of_row(self, result: list[ir.Value], row: int) -> list[ir.Value]:
        quads = self._result_quads
        return result[row * quads : (row + 1) * quads]

    def _add_block(self, first: Index, values: list[ir.Value]) -> list[ir.Value]:
        keys, largest, sums, result = self._split(values)
        self._keys[0].store(keys, self._staged_keys)
        barrier()
        masks = [self._masks_of(first, row) for row in self._rows]
        products, following = self._products(first)
        scores = [
            self._existing(
                first,
                quad_of([self._masks.masked(lane(quad, j), mask[j]) for j in range(QUAD)]) if mask else quad,
            )
            for quad, mask in zip(products, masks, strict=True)
        ]
        for row, score in zip(self._rows, scores, strict=True):
            self._shared.store(_over_quad(score, arith.maximumf), [row, self._column])
        # Nobody reads the keys any more.
        barrier()
        self._values.store(following, self._staged_values)
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
        for part in range(self._parts):
            is_last = part == self._parts - 1
            following = (
                self._keys[0].load(first + self._kernel.schedule.keys)
                if is_last
                else self._values.load(first + (part + 1) * self._values.extents[0])
            )
            if part == 0:
                result = [
                    arith.mulf(each, broadcast(scales[i], QUAD))
                    for i in range(_THREAD_ROWS)
                    for each in self._of_row(result, i)
                ]
            result = self._mixed(result, part)
            # Nobody reads these values any more, and weights after the last ones.
            barrier()
            if not is_last:
                self._values.store(following, self._staged_values)
                barrier()
        return [*following, *largest_now, *sums, *result]

    def _masks_of(self, first: Index, row: Index) -> list[list[ir.Value]]:
        """Those of this thread's scores of a row; none where scores aren't masked."""
        if not self._kernel.problem.masks:
            return []
        key = first + self._column * QUAD
        return [self._masks.load(self._first + row, key + j) for j in range(QUAD)]

    def _products(self, first: Index) -> tuple[list[ir.Value], list[ir.Value]]:
        """For each row the scores of this thread's quad of keys, and the first values on their way."""
        sums = [constant_quad(0.0, self._element)] * _THREAD_ROWS
        for part in range(self._parts):
            is_last = part == self._parts - 1
            following = self._values.load(first) if is_last else self._keys[part + 1].load(first)
            sums = self._summed(sums, part)
            if not is_last:
                # Nobody reads these channels any more.
                barrier()
                self._keys[part + 1].store(following, self._staged_keys)
                barrier()
        factor = self._kernel.problem.scores.factor
        return [arith.mulf(each, constant_quad(factor, self._element)) for each in sums], following

    def _summed(self, sums: list[ir.Value], part: int) -> list[ir.Value]:
        """Adds the products of a part of the channels to scores."""
        quads = self._channel_quads // self._parts
        begin, last = part * quads, self._channel_quads - 1

        def step(quad: Index, values: list[ir.Value]) -> list[ir.Value]:
            sums, held = values[:_THREAD_ROWS], values[_THREAD_ROWS:]
            # The four keys of this thread lie apart, each beside its neighbours' of the same number.
            keys = [self._staged_keys.load([self._column + _ACROSS * j, quad]) for j in range(QUAD)]
            channels = transposed(keys)
            # Those of the device's memory take longest: the next ones are on their way meanwhile.
            following = self._queries_at((quad + (begin + 1)).minimum(last)) if held else []
            for i, row in enumerate(self._rows):
                query = (
                    self._of_queries.load([row, quad + begin]) if self._of_queries is not None else held[i]
                )
                for c in range(QUAD):
                    sums[i] = vector.fma(broadcast(lane(query, c), QUAD), channels[c], sums[i])
            return [*sums, *following]

        held = self._queries_at(Index(begin)) if self._of_queries is None else []
        return loop_carried(quads, 1, [*sums, *held], step, "channels")[:_THREAD_ROWS]

    def _queries_at(self, quad: Index) -> list[ir.Value]:
        """This thread's quad of each of its rows, from the device's memory."""
        return [self._queries.quad_of_row(row, quad) for row in self._rows]

    def _existing(self, first: Index, scores: ir.Value) -> ir.Value:
        """Minus infinity for keys behind the last one."""
        count = self._kernel.problem.scores.columns
        if count % self._kernel.schedule.keys == 0:
            return scores
        none = constant_like(lane(scores, 0), -np.inf)
        key = first + self._column * QUAD
        return quad_of(
            [arith.select((key + j).less_than(count).value, lane(scores, j), none) for j in range(QUAD)]
        )

    def _mixed(self, result: list[ir.Value], part: int) -> list[ir.Value]:
        """Adds what the block's weights mix of a part of its values."""
        count = self._result_quads
        quads = _ACROSS // self._parts
        begin = part * quads

        def step(quad: Index, sums: list[ir.Value]) -> list[ir.Value]:
            weights = [self._weights.load([row, quad + begin]) for row in self._rows]
            for c in range(QUAD):
                for j in range(count):
                    value = self._staged_values.load([quad * QUAD + c, self._column + _ACROSS * j])
                    for i in range(_THREAD_ROWS):
                        weight = broadcast(lane(weights[i], c), QUAD)
                        sums[i * count + j] = vector.fma(weight, value, sums[i * count + j])
            return sums

        return loop_carried(quads, 1, result, step, "mixed")

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
                exists = Condition(True) if self._values.is_whole else place.less_than(mixtures.columns)
                offset = start + place * written.column_stride
                value = lane(quad, i)
                when(exists, lambda v=value, at=offset: output.store_scalar(v, at))  # type: ignore[misc]


def _over_quad(quad: ir.Value, combine: _Combination) -> ir.Value:
    return reduce(combine, [lane(quad, i) for i in range(QUAD)])
