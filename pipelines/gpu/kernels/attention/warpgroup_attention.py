"""The GPU kernel of attention in half precision by warpgroups: each multiplies, and normalizes, 64 queries.

After Shah et al., FlashAttention-3 (NeurIPS 2024): while matrix units multiply for one warpgroup, others find
exponentials. Scores are sums of exact products in f32. Exponentials are rounded to half precision, their sums
aren't: a thread has its scores as it has to hold the rows of the second product.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import arith, ir, memref
from iree.winograd.pipelines.emission.control_flow import loop_carried, when
from iree.winograd.pipelines.emission.index import Condition, Index
from iree.winograd.pipelines.emission.numbers.f32 import F32
from iree.winograd.pipelines.emission.work import Work
from iree.winograd.pipelines.gpu.device.matrix_unit import MATRIX_ROWS, WARP_THREADS
from iree.winograd.pipelines.gpu.device.memory import (
    PAIR,
    QUAD,
    GlobalBuffer,
    barrier,
    quad_of,
    thread_id,
    zero_scalar,
)
from iree.winograd.pipelines.gpu.device.shuffles import of_first_thread, over_threads
from iree.winograd.pipelines.gpu.device.warpgroup import (
    REDUCTION,
    WARPGROUP_ROWS,
    WARPGROUP_THREADS,
    WarpgroupSums,
    begin_products,
    commit_products,
    held_pair,
    landed_sums,
    settled_pairs,
    settled_sums,
)
from iree.winograd.pipelines.gpu.kernels.matrix_products.batch_matmul import matrix_origin
from iree.winograd.pipelines.gpu.schedules.attention import WarpgroupAttentionSchedule

from .attention import AttentionKernel, Masks
from .attention_blocks import Blocks
from .online_softmax import COLUMNS, ROW_DISTANCE, ROWS, OnlineSoftmax


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
        self._factors = buffers[0].number
        # Buffers are bound in a kernel's first block.
        self._pairs = output.viewed_as(output.element, PAIR) if output.by_quads else None
        self._blocks = Blocks(problem, schedule, buffers, self._head)
        self._warpgroup = of_first_thread(thread_id() // WARPGROUP_THREADS)
        lane, warp = thread_id() % WARP_THREADS, thread_id() // WARP_THREADS
        self._row = self._first + warp * MATRIX_ROWS + lane // QUAD
        """The first of this thread's."""
        self._column = lane % QUAD * PAIR
        masks_of_head = Masks(problem, masks, self._head)
        self._softmax = OnlineSoftmax(problem, masks_of_head, self._row, self._column)

    @property
    def _has_queries(self) -> Condition:
        """Whether this thread's warpgroup has any."""
        rows = self._scores.rows
        if rows % self._schedule.queries == 0:
            return Condition(True)
        return (self._first + self._warpgroup * WARPGROUP_ROWS).less_than(rows)

    def emit(self) -> None:
        self._blocks.clear_channels()
        when(thread_id().less_than(1), self._blocks.initialize)
        barrier()
        moved = self._blocks.begin(self._first)
        # Warpgroups behind the last query help to move keys alone.
        when(self._has_queries, lambda: self._attend(moved), lambda: self._pass(moved))

    def _attend(self, moved: list[ir.Value]) -> None:
        """A block's products with values run beside the exponentials of the next one.

        Carried are the state of rows and results, the weights of the block whose products are next, and what
        is moved.
        """
        columns, keys = self._scores.columns, self._schedule.keys
        first = Index(0)
        self._blocks.wait(first)
        scored = self._begin_scores(first, min(keys, columns))
        commit_products()
        moved = self._blocks.move_following(first, moved)
        (scores,) = landed_sums([scored])
        state, _, weights = self._softmax.weighed(first, min(keys, columns), scores, self._softmax.begin())
        nothing = [zero_scalar(F32.type)] * (WARPGROUP_ROWS * self._mixtures.columns // WARPGROUP_THREADS)
        values, weights = [*state, *nothing], self._held(weights)
        counts = [len(values), len(weights), len(moved)]

        def add_block(first: Index, carried: list[ir.Value], count: int = keys) -> list[ir.Value]:
            values, weights, moved = _parted(carried, counts)
            return self._add_block(first, count, values, weights, moved)

        whole, rest = divmod(columns, keys)
        carried = [*values, *weights, *moved]
        if whole > 1:
            carried = loop_carried((whole - 1) * keys, keys, carried, add_block, "keys")
        if rest and whole:
            carried = add_block(Index((whole - 1) * keys), carried, rest)
            counts[1] = _whole_steps(rest) * WARPGROUP_ROWS // (WARPGROUP_THREADS * PAIR)
        values, weights, _ = _parted(carried, counts)
        last = Index((ceil_div(columns, keys) - 1) * keys)
        begin_products()
        mixed = self._begin_mixed(last, weights, values[4:])
        commit_products()
        (results,) = landed_sums([mixed])
        self._store(values[2:4], results)

    def _add_block(
        self,
        first: Index,
        count: int,
        values: Sequence[ir.Value],
        weights: Sequence[ir.Value],
        moved: Sequence[ir.Value],
    ) -> list[ir.Value]:
        """Adds a block of keys by its `weights`, and finds those of the next one, of `count` keys."""
        following = first + self._schedule.keys
        self._blocks.wait(following)
        scored = self._begin_scores(following, count)
        commit_products()
        mixed = self._begin_mixed(first, weights, values[4:])
        commit_products()
        moved = self._blocks.move_following(following, moved)
        (scores,) = landed_sums([scored], pending=1)
        state, scales, exponentials = self._softmax.weighed(following, count, scores, values[:4])
        exponentials = settled_sums(exponentials)
        (results,) = landed_sums([mixed])
        self._blocks.release(first)
        return [*state, *self._scaled(results, scales), *self._held(exponentials), *moved]

    def _pass(self, moved: list[ir.Value]) -> None:
        """What a warpgroup without queries does."""

        def move(first: Index, carried: list[ir.Value]) -> list[ir.Value]:
            moved = self._blocks.move_following(first, carried)
            # Or it would release a place again before others do.
            self._blocks.wait(first)
            self._blocks.release(first)
            return moved

        loop_carried(self._scores.columns, self._schedule.keys, moved, move, "keys")

    # A block of keys

    def _begin_scores(self, first: Index, count: int) -> WarpgroupSums:
        """Begins this thread's scores of so many keys, or of a few more, without their factor."""
        begin_products()
        sums = WarpgroupSums.unset(_whole_steps(count))
        for step, (rows, columns) in enumerate(
            zip(self._blocks.queries(), self._blocks.keys(first), strict=True)
        ):
            sums = sums.add(rows, columns, begins=step == 0)
        return sums

    def _held(self, weights: Sequence[ir.Value]) -> list[ir.Value]:
        """Weights in half precision, in pairs, as the rows of products."""
        return settled_pairs(
            [held_pair(weights[i], weights[i + 1], self._factors) for i in range(0, len(weights), PAIR)]
        )

    def _scaled(self, results: Sequence[ir.Value], scales: Sequence[ir.Value]) -> list[ir.Value]:
        return settled_sums(
            [arith.mulf(result, scales[i // PAIR % ROWS]) for i, result in enumerate(results)]
        )

    def _begin_mixed(
        self, first: Index, weights: Sequence[ir.Value], results: Sequence[ir.Value]
    ) -> WarpgroupSums:
        """Begins to add what the `weights` of a block of keys mix of its values."""
        sums, held = WarpgroupSums.of(results), REDUCTION // COLUMNS * ROWS
        for number, columns in enumerate(self._blocks.values(first, len(weights) // held)):
            sums = sums.add_held(weights[number * held : (number + 1) * held], columns)
        return sums

    # The results

    def _store(self, sums: Sequence[ir.Value], results: Sequence[ir.Value]) -> None:
        for row in range(ROWS):
            inverse = self._kernel.inverse_of(over_threads(sums[row], QUAD, arith.addf))
            number = self._row + row * ROW_DISTANCE
            finished = [
                arith.mulf(result, inverse) for i, result in enumerate(results) if i // PAIR % ROWS == row
            ]

            def store(number: Index = number, finished: list[ir.Value] = finished) -> None:
                self._store_row(number, finished)

            when(number.less_than(self._scores.rows), store)

    def _store_row(self, number: Index, results: Sequence[ir.Value]) -> None:
        """Writes this thread's results of a query: a pair of each eight columns."""
        written, output = self._mixtures.output, self._output
        start = matrix_origin(written, self._head) + number * written.row_stride
        for first in range(0, len(results), PAIR):
            column = self._column + first // PAIR * COLUMNS
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


def _parted(values: Sequence[ir.Value], counts: Sequence[int]) -> Iterator[list[ir.Value]]:
    """So many of them each, one after the other."""
    remaining = iter(values)
    return (list(islice(remaining, count)) for count in counts)
