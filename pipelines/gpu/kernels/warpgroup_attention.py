"""The GPU kernel of attention in half precision by warpgroups: each multiplies, and normalizes, 64 queries.

After Shah et al., FlashAttention-3 (NeurIPS 2024), without warps that copy alone: while matrix units multiply
for one warpgroup, others find exponentials. Scores are sums of exact products in f32. Exponentials are
rounded to half precision, their sums aren't: a thread has its scores as it has to hold the rows of the second
product. Chunks of 16 bytes of queries, keys and values come to shared memory as they are in the device's, all
threads moving some. Barriers say of each stage's place that it is full, or empty again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import islice
from math import log2

import numpy as np
from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import arith, ir, math, memref
from iree.winograd.pipelines.emission.control_flow import loop_carried, when
from iree.winograd.pipelines.emission.index import Condition, Index
from iree.winograd.pipelines.emission.numbers.f32 import F32
from iree.winograd.pipelines.emission.vectors import constant_like, vector_type
from iree.winograd.pipelines.emission.work import Work
from iree.winograd.pipelines.gpu.device.exponential import power_of_two
from iree.winograd.pipelines.gpu.device.matrix_unit import COPIED, MATRIX_ROWS, WARP_THREADS
from iree.winograd.pipelines.gpu.device.memory import (
    PAIR,
    QUAD,
    GlobalBuffer,
    barrier,
    quad_of,
    thread_id,
    zero_scalar,
)
from iree.winograd.pipelines.gpu.device.shuffles import over_threads
from iree.winograd.pipelines.gpu.device.warpgroup import (
    BARRIER_BYTES,
    COPIED_BYTES,
    REDUCTION,
    WARPGROUP_ROWS,
    WARPGROUP_THREADS,
    Barrier,
    SharedBytes,
    WarpgroupSums,
    begin_products,
    commit_products,
    held_pair,
    landed_sums,
    publish,
    settled_pairs,
    settled_sums,
    synchronize_warp,
)
from iree.winograd.pipelines.gpu.schedules.attention import WarpgroupAttentionSchedule

from .attention import LOWEST, AttentionKernel, Masks
from .batch_matmul import matrix_origin
from .moved_rows import MovedRows

_ROWS = 2
"""Of a thread, eight apart."""
_ROW_DISTANCE = MATRIX_ROWS // 2
_COLUMNS = 8
"""Of which a thread has a pair of sums in each of its rows."""
_EIGHT_ROWS = 8 * COPIED_BYTES
_LOG2_E = log2(np.e)


@dataclass(frozen=True)
class WarpgroupAttentionKernel(AttentionKernel):
    """A workgroup has 64 queries of a head for each warpgroup.

    Keys and values of a block come to shared memory while those of the two before it are multiplied.
    """

    schedule: WarpgroupAttentionSchedule

    @property
    def writes_quads(self) -> bool:
        return True

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
        _Workgroup(self, work, (queries, keys, values), masks, output).emit()


class _Workgroup:
    """One workgroup, as one of its threads sees it.

    What it carries from one block of keys to the next are, of each of its two rows, the largest score so far
    and its share of the sum of exponentials, and its share of the result.
    """

    def __init__(
        self,
        kernel: WarpgroupAttentionKernel,
        work: Work,
        buffers: Sequence[GlobalBuffer],
        masks: Sequence[GlobalBuffer],
        output: GlobalBuffer,
    ) -> None:
        problem, schedule = kernel.problem, kernel.schedule
        self._kernel, self._schedule = kernel, schedule
        self._scores, self._mixtures, self._output = problem.scores, problem.mixtures, output
        self._head, self._first = work.workgroup[1], work.workgroup[0] * schedule.queries
        queries, keys, values = buffers
        self._factors = queries.number
        self._masks = Masks(problem, masks, self._head)
        # Buffers are bound in a kernel's first block.
        self._pairs = output.viewed_as(output.element, PAIR) if output.by_quads else None
        self._shared = SharedBytes.allocate(schedule.shared_memory_bytes(problem), "attention")
        self._of_queries = schedule.query_chunks(problem)
        self._of_keys, self._of_values = schedule.key_chunks(problem), schedule.value_chunks(problem)
        self._stages, self._stage_bytes = self._of_queries.bytes, schedule.stage_bytes(problem)
        self._barriers = self._stages + schedule.stages * self._stage_bytes
        scores, mixtures, threads = problem.scores, problem.mixtures, schedule.threads
        self._queries = MovedRows.of(
            queries,
            scores.left,
            scores.left.row_stride,
            self._head,
            scores.rows,
            scores.reduction,
            self._of_queries,
            threads,
        )
        self._keys, self._values = (
            MovedRows.of(buffer, matrices, stride, self._head, scores.columns, channels, to, threads)
            for buffer, matrices, stride, channels, to in (
                (keys, scores.right, scores.right.column_stride, scores.reduction, self._of_keys),
                (values, mixtures.right, mixtures.right.row_stride, mixtures.columns, self._of_values),
            )
        )
        self._warpgroup = thread_id() // WARPGROUP_THREADS
        self._lane, warp = thread_id() % WARP_THREADS, thread_id() // WARP_THREADS
        self._row = self._first + warp * MATRIX_ROWS + self._lane // QUAD
        """The first of this thread's."""
        self._column = self._lane % QUAD * PAIR

    @property
    def _has_queries(self) -> Condition:
        """Whether this thread's warpgroup has any."""
        rows = self._scores.rows
        if rows % self._schedule.queries == 0:
            return Condition(True)
        return (self._first + self._warpgroup * WARPGROUP_ROWS).less_than(rows)

    def emit(self) -> None:
        self._clear_channels()
        when(thread_id().less_than(1), self._initialize)
        barrier()
        queries, loaded = self._queries.load(self._first), self._load_block(Index(0))
        self._queries.store(queries, self._shared, 0)
        self._store_block(Index(0), loaded)
        loaded = self._load_following(Index(0))
        # Warpgroups behind the last query help to move keys alone.
        when(self._has_queries, lambda: self._attend(loaded), lambda: self._move(loaded))

    def _attend(self, loaded: list[ir.Value]) -> None:
        """A block's products with values run beside the exponentials of the next one.

        Carried are the state of rows and results, the weights of the block whose products are next, and what
        was loaded of the block after the next.
        """
        columns, keys = self._scores.columns, self._schedule.keys
        first = Index(0)
        scored = self._begin_scores(first, min(keys, columns))
        commit_products()
        loaded = self._move_following(first, loaded)
        (scores,) = landed_sums([scored])
        values = self._nothing()
        state, _, weights = self._weighed(first, min(keys, columns), scores, values[:4])
        values, weights = [*state, *values[4:]], self._held(weights)
        counts = [len(values), len(weights), len(loaded)]

        def add_block(first: Index, carried: list[ir.Value], count: int = keys) -> list[ir.Value]:
            values, weights, loaded = _parted(carried, counts)
            return self._add_block(first, count, values, weights, loaded)

        whole, rest = divmod(columns, keys)
        carried = [*values, *weights, *loaded]
        if whole > 1:
            carried = loop_carried((whole - 1) * keys, keys, carried, add_block, "keys")
        if rest and whole:
            carried = add_block(Index((whole - 1) * keys), carried, rest)
            counts[1] = _whole_steps(rest) * WARPGROUP_ROWS // (WARPGROUP_THREADS * PAIR)
        values, weights, _ = _parted(carried, counts)
        begin_products()
        mixed = self._begin_mixed(Index((ceil_div(columns, keys) - 1) * keys), weights, values[4:])
        commit_products()
        (results,) = landed_sums([mixed])
        self._store(values[2:4], results)

    def _add_block(
        self,
        first: Index,
        count: int,
        values: Sequence[ir.Value],
        weights: Sequence[ir.Value],
        loaded: Sequence[ir.Value],
    ) -> list[ir.Value]:
        """Adds a block of keys by its `weights`, and finds those of the next one, of `count` keys."""
        following = first + self._schedule.keys
        scored = self._begin_scores(following, count)
        commit_products()
        mixed = self._begin_mixed(first, weights, values[4:])
        commit_products()
        loaded = self._move_following(following, loaded)
        (scores,) = landed_sums([scored], pending=1)
        state, scales, exponentials = self._weighed(following, count, scores, values[:4])
        # Before the wait, not behind it.
        exponentials = settled_sums(exponentials)
        (results,) = landed_sums([mixed])
        self._release(first)
        return [*state, *self._scaled(results, scales), *self._held(exponentials), *loaded]

    def _move(self, loaded: list[ir.Value]) -> None:
        """What a warpgroup without queries does."""

        def move(first: Index, carried: list[ir.Value]) -> list[ir.Value]:
            moved = self._move_following(first, carried)
            self._release(first)
            return moved

        loop_carried(self._scores.columns, self._schedule.keys, loaded, move, "keys")

    def _nothing(self) -> list[ir.Value]:
        """What is carried before the first block."""
        zero = zero_scalar(F32.type)
        # No infinity when it is multiplied.
        lowest = constant_like(zero, LOWEST / max(1.0, self._factor))
        results = [zero] * (WARPGROUP_ROWS * self._mixtures.columns // WARPGROUP_THREADS)
        return [lowest, lowest, zero, zero, *results]

    # Memory

    def _initialize(self) -> None:
        for place in range(self._schedule.stages):
            for each in (self._full(Index(place)), self._empty(Index(place))):
                each.initialize(arrivals=self._schedule.threads // WARP_THREADS)

    def _full(self, place: Index) -> Barrier:
        """That a stage has come to a place."""
        return self._shared.barrier(place * BARRIER_BYTES + self._barriers)

    def _empty(self, place: Index) -> Barrier:
        """That all warps are done with it."""
        behind = self._barriers + self._schedule.stages * BARRIER_BYTES
        return self._shared.barrier(place * BARRIER_BYTES + behind)

    def _position(self, first: Index) -> tuple[Index, Index]:
        """The place of a block, and the parity of its turn there."""
        number = first // self._schedule.keys
        return number % self._schedule.stages, number // self._schedule.stages % 2

    def _clear_channels(self) -> None:
        """Zeros for the channels behind those of queries, and of keys in all stages."""
        first = self._scores.reduction // COPIED
        zeros = arith.constant(
            (type_ := vector_type(QUAD, F32.type)),
            ir.DenseElementsAttr.get_splat(type_, ir.FloatAttr.get(F32.type, 0.0)),
        )
        stages = [self._stages + i * self._stage_bytes for i in range(self._schedule.stages)]
        for place, of in ((0, self._of_queries), *((place, self._of_keys) for place in stages)):
            for chunk in range(first, of.count):
                for begin in range(0, of.rows, self._schedule.threads):
                    row = thread_id() + begin
                    offset = row * COPIED_BYTES + (place + chunk * of.distance)
                    when(
                        row.less_than(of.rows),
                        lambda offset=offset: self._shared.store(zeros, offset),  # type: ignore[misc]
                    )

    def _load_block(self, first: Index) -> list[ir.Value]:
        """This thread's chunks of keys, and behind them those of values."""
        return [*self._keys.load(first), *self._values.load(first)]

    def _load_following(self, first: Index) -> list[ir.Value]:
        """Those of the block behind one, some others if there is none."""
        following = first + self._schedule.keys
        if following.less_than(self._scores.columns).known is False:
            return [zero_scalar(F32.type)] * (QUAD * (self._keys.loads + self._values.loads))
        return self._load_block(following)

    def _store_block(self, first: Index, loaded: Sequence[ir.Value]) -> None:
        """Leaves a block in its place, as soon as what was there isn't read any more."""
        place, parity = self._position(first)
        # In the first turn there is nothing to wait for.
        self._empty(place).wait(parity ^ 1)
        to, of_keys = self._of_place(place), QUAD * self._keys.loads
        self._keys.store(loaded[:of_keys], self._shared, to)
        self._values.store(loaded[of_keys:], self._shared, to + self._of_keys.bytes)
        publish()
        synchronize_warp()
        when(self._lane.less_than(1), self._full(place).arrive)

    def _of_place(self, place: Index) -> Index:
        return place * self._stage_bytes + self._stages

    def _move_following(self, first: Index, loaded: Sequence[ir.Value]) -> list[ir.Value]:
        """Leaves the block behind one, of which this thread has loaded its chunks, in shared memory.

        Gives this thread's chunks of the block behind that.
        """
        following = first + self._schedule.keys
        when(following.less_than(self._scores.columns), lambda: self._store_block(following, loaded))
        return self._load_following(following)

    def _release(self, first: Index) -> None:
        """This warp is done with a block."""
        place, _ = self._position(first)
        when(self._lane.less_than(1), self._empty(place).arrive)

    # A block of keys

    def _weighed(
        self, first: Index, count: int, scores: Sequence[ir.Value], state: Sequence[ir.Value]
    ) -> tuple[list[ir.Value], list[ir.Value], list[ir.Value]]:
        """What a block of so many keys makes of the largest scores and the sums of exponentials so far.

        Behind these what results so far are to be multiplied by, and the block's exponentials.
        """
        largest, sums = list(state[:2]), list(state[2:])
        scores = self._existing(count, self._masked(first, scores))
        scales = []
        for row in range(_ROWS):
            places = [i for i in range(len(scores)) if i // PAIR % _ROWS == row]
            found = _combined([scores[i] for i in places], arith.maxnumf)
            now = arith.maxnumf(largest[row], over_threads(found, QUAD, arith.maxnumf))
            scales.append(self._exponential_of_difference(largest[row], now))
            largest[row] = now
            for i in places:
                scores[i] = self._exponential(scores[i], now)
            total = _combined([scores[i] for i in places], arith.addf)
            sums[row] = math.fma(sums[row], scales[row], total)
        return [*largest, *sums], scales, scores

    def _begin_scores(self, first: Index, count: int) -> WarpgroupSums:
        """Begins this thread's scores of so many keys, or of a few more, without their factor."""
        queries, keys = self._of_queries, self._of_keys
        number, parity = self._position(first)
        self._full(number).wait(parity)
        place = self._of_place(number)
        of_warpgroup = self._warpgroup * (WARPGROUP_ROWS * COPIED_BYTES)
        rows = self._shared.gathered_operand(of_warpgroup, queries.distance, _EIGHT_ROWS, self._factors)
        columns = self._shared.gathered_operand(place, keys.distance, _EIGHT_ROWS, self._factors)
        begin_products()
        sums = WarpgroupSums.unset(_whole_steps(count))
        step = REDUCTION // COPIED
        for chunk in range(0, queries.count, step):
            sums = sums.add(
                rows.behind(chunk * queries.distance),
                columns.behind(chunk * keys.distance),
                begins=chunk == 0,
            )
        return sums

    @property
    def _is_scaled_late(self) -> bool:
        """Whether scores are multiplied by their factor as their exponentials are found."""
        return not self._kernel.problem.masks and self._scores.factor > 0

    @property
    def _factor(self) -> float:
        """By which differences of scores are multiplied for powers of two."""
        return self._scores.factor * _LOG2_E if self._is_scaled_late else _LOG2_E

    def _masked(self, first: Index, scores: Sequence[ir.Value]) -> list[ir.Value]:
        """Scores with their factor and masks, or neither yet."""
        if self._is_scaled_late:
            return list(scores)
        masked = []
        for i, score in enumerate(scores):
            scaled = arith.mulf(score, constant_like(score, self._scores.factor))
            query = self._row + i // PAIR % _ROWS * _ROW_DISTANCE
            masks = self._masks.load(query, first + self._column + _column_of(i))
            masked.append(self._masks.masked(scaled, masks))
        return masked

    def _existing(self, count: int, scores: Sequence[ir.Value]) -> list[ir.Value]:
        """Minus infinity for keys behind the last one, of so many of this block."""
        existing = []
        for i, score in enumerate(scores):
            if _column_of(i) + _COLUMNS > count:
                none = constant_like(score, -np.inf)
                exists = (self._column + _column_of(i)).less_than(count)
                score = arith.select(exists.value, score, none)
            existing.append(score)
        return existing

    def _exponential(self, score: ir.Value, largest: ir.Value) -> ir.Value:
        """Of the difference."""
        if not self._is_scaled_late:
            return self._exponential_of_difference(score, largest)
        factor = constant_like(score, self._factor)
        return power_of_two(math.fma(score, factor, arith.negf(arith.mulf(largest, factor))))

    def _exponential_of_difference(self, score: ir.Value, largest: ir.Value) -> ir.Value:
        """The same, exactly one where both are equal."""
        difference = arith.subf(score, largest)
        return power_of_two(arith.mulf(difference, constant_like(difference, self._factor)))

    def _held(self, weights: Sequence[ir.Value]) -> list[ir.Value]:
        """Weights in half precision, in pairs, as the rows of products."""
        return settled_pairs(
            [held_pair(weights[i], weights[i + 1], self._factors) for i in range(0, len(weights), PAIR)]
        )

    def _scaled(self, results: Sequence[ir.Value], scales: Sequence[ir.Value]) -> list[ir.Value]:
        return settled_sums(
            [arith.mulf(result, scales[i // PAIR % _ROWS]) for i, result in enumerate(results)]
        )

    def _begin_mixed(
        self, first: Index, weights: Sequence[ir.Value], results: Sequence[ir.Value]
    ) -> WarpgroupSums:
        """Begins to add what the `weights` of a block of keys mix of its values."""
        values = self._of_values
        place = self._of_place(self._position(first)[0])
        columns = self._shared.transposed_operand(
            place + self._of_keys.bytes, values.distance, _EIGHT_ROWS, self._factors
        )
        sums = WarpgroupSums.of(results)
        held = REDUCTION // _COLUMNS * _ROWS
        for number, begin in enumerate(range(0, len(weights), held)):
            sums = sums.add_held(
                weights[begin : begin + held], columns.behind(number * REDUCTION * COPIED_BYTES)
            )
        return sums

    # The results

    def _store(self, sums: Sequence[ir.Value], results: Sequence[ir.Value]) -> None:
        for row in range(_ROWS):
            inverse = self._kernel.inverse_of(over_threads(sums[row], QUAD, arith.addf))
            number = self._row + row * _ROW_DISTANCE
            finished = [
                arith.mulf(result, inverse) for i, result in enumerate(results) if i // PAIR % _ROWS == row
            ]

            def store(number: Index = number, finished: list[ir.Value] = finished) -> None:
                self._store_row(number, finished)

            when(number.less_than(self._scores.rows), store)

    def _store_row(self, number: Index, results: Sequence[ir.Value]) -> None:
        """Writes this thread's results of a query: a pair of each eight columns."""
        written, output = self._mixtures.output, self._output
        start = matrix_origin(written, self._head) + number * written.row_stride
        for first in range(0, len(results), PAIR):
            column = self._column + first // PAIR * _COLUMNS
            pair = results[first : first + PAIR]
            if self._pairs is not None:
                stored = output.number.narrowed(quad_of(pair))
                memref.store(stored, self._pairs, [((start + column) // PAIR).value])
                continue
            for i, element in enumerate(pair):
                output.store_scalar(element, start + (column + i) * written.column_stride)


def _whole_steps(keys: int) -> int:
    """Those that are multiplied by values together with so many."""
    return ceil_div(keys, REDUCTION) * REDUCTION


def _column_of(number: int) -> int:
    """Behind this thread's first column, that of one of its sums."""
    return number // (PAIR * _ROWS) * _COLUMNS + number % PAIR


def _parted(values: Sequence[ir.Value], counts: Sequence[int]) -> Iterator[list[ir.Value]]:
    """So many of them each, one after the other."""
    remaining = iter(values)
    return (list(islice(remaining, count)) for count in counts)


def _combined(values: Sequence[ir.Value], combine: Callable[[ir.Value, ir.Value], ir.Value]) -> ir.Value:
    """In two chains, whose instructions don't wait for each other."""
    return combine(*(reduce(combine, values[i::2]) for i in range(2)))
