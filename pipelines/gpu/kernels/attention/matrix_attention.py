"""The GPU kernel of attention on NVIDIA's matrix units: each warp multiplies, and normalizes, 16 queries.

After Dao, FlashAttention-2 (ICLR 2024). Products of fp32 are three of TF32, as those of tiles and gradients
(`matrix_tile_product.py`): nothing needs a scale. The reduction of a product goes through channels, or keys,
in any order that both operands have. So that each thread

* reads four neighbouring channels of a query, or of a key, which count as those of two products;
* multiplies by values those weights that it has as sums of the first product;
* reads up to four neighbouring channels of a value, one for each of as many products, and has twice as many
  neighbouring results.

Matrix units truncate when they add. They sum the large products of 16 channels, or of a block of keys,
and threads add these sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import arith, ir, math, memref
from iree.winograd.pipelines.emission.control_flow import loop_carried, values_when, when
from iree.winograd.pipelines.emission.functions import LOG2_E
from iree.winograd.pipelines.emission.index import Condition, Index
from iree.winograd.pipelines.emission.numbers.f32 import F32
from iree.winograd.pipelines.emission.vectors import constant_like
from iree.winograd.pipelines.emission.work import Work
from iree.winograd.pipelines.gpu.device.exponential import power_of_two
from iree.winograd.pipelines.gpu.device.matrix_unit import MATRIX_ROWS, WARP_THREADS
from iree.winograd.pipelines.gpu.device.memory import (
    QUAD,
    GlobalBuffer,
    constant_quad,
    numbers_of_thread,
    quad_of,
    thread_id,
    zero_scalar,
)
from iree.winograd.pipelines.gpu.device.mma import (
    StageMemory,
    commit_copies,
    single_fragment,
    wait_for_copies,
)
from iree.winograd.pipelines.gpu.device.shuffles import over_threads
from iree.winograd.pipelines.gpu.kernels.matrix_products.batch_matmul import matrix_origin
from iree.winograd.pipelines.gpu.kernels.matrix_products.single_products import (
    PAIR,
    Parts,
    SingleProducts,
    Sums,
    parts_of_fragment,
)
from iree.winograd.pipelines.gpu.schedules.attention import MatrixAttentionSchedule

from .attention import LOWEST, AttentionKernel, Masks, Rows
from .attention_stages import SharedRows, StagedRows

_COLUMNS = 8
"""Of one product, as is its reduction."""
_SUMMED_CHANNELS = MATRIX_ROWS
"""Whose products matrix units sum: as many as threads read at once."""
_UNROLLED_CHANNELS = 64
_LOADED_BY_QUADS = 128
"""Channels of values whose results leave registers for four products at once."""
_HALF_ROWS = MATRIX_ROWS // 2


@dataclass(frozen=True)
class MatrixAttentionKernel(AttentionKernel):
    """A workgroup has 16 queries of a head for each warp.

    Keys and values of a block come to shared memory while those of the block before it are multiplied.
    """

    schedule: MatrixAttentionSchedule

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
        _Workgroup(self, work, (queries, keys, values), masks).emit(output)


class _Workgroup:
    """One workgroup, as one of its threads sees it.

    What it carries from one block of keys to the next are, of each of its two rows, the largest score so far
    and its share of the sum of exponentials, and its share of the result.
    """

    def __init__(
        self,
        kernel: MatrixAttentionKernel,
        work: Work,
        buffers: Sequence[GlobalBuffer],
        masks: Sequence[GlobalBuffer],
    ) -> None:
        problem, self._schedule = kernel.problem, kernel.schedule
        self._kernel, self._scores, self._mixtures = kernel, problem.scores, problem.mixtures
        self._head, self._first = work.workgroup[1], work.workgroup[0] * self._schedule.queries
        queries, keys, values = buffers
        self._masks = Masks(problem, masks, self._head)
        schedule = self._schedule
        self._channels = ceil_div(self._scores.reduction, _COLUMNS) * _COLUMNS
        memory = StageMemory.allocate(schedule.shared_elements(problem), "attention", F32.type)
        channel_row, behind = schedule.channel_row(problem), schedule.queries * schedule.channel_row(problem)
        self._of_queries = SharedRows(memory, 0, channel_row)
        self._of_keys = SharedRows(memory, behind, channel_row)
        self._of_values = SharedRows(
            memory, behind + schedule.keys * channel_row, schedule.value_row(problem)
        )
        self._queries = Rows.of_queries(kernel, queries, self._head, self._first, self._channels // QUAD)
        key_quads, value_quads = (
            ceil_div(count, QUAD) for count in (self._scores.reduction, self._mixtures.columns)
        )
        self._staged = (
            StagedRows(Rows.of_keys(kernel, keys, self._head, key_quads), self._of_keys),
            StagedRows(Rows.of_values(kernel, values, self._head, value_quads), self._of_values),
        )
        lane, warp = thread_id() % WARP_THREADS, thread_id() // WARP_THREADS
        self._warp_row, self._lane_row, self._lane_place = warp * MATRIX_ROWS, lane // QUAD, lane % QUAD

    @property
    def _has_queries(self) -> Condition:
        """Whether this thread's warp has any."""
        rows = self._scores.rows
        return (
            Condition(True)
            if rows % self._schedule.queries == 0
            else (self._first + self._warp_row).less_than(rows)
        )

    def emit(self, output: GlobalBuffer) -> None:
        # Buffers are bound in a kernel's first block.
        self._pairs = output.viewed_as(F32.type, PAIR) if output.by_quads else None
        self._queries.store(self._queries.load(Index(0)), self._of_queries)
        self._clear_keys()
        self._end(Index(0), Index(0), self._begin(Index(0), Index(0)))
        group = commit_copies()
        zero = zero_scalar(F32.type)
        results = [zero] * (PAIR * 2 * sum(width for _, width in self._value_groups()))
        lowest = constant_like(zero, LOWEST)

        def add_block(first: Index, values: list[ir.Value]) -> list[ir.Value]:
            wait_for_copies(group, 0)
            place, other = self._places(first)
            following = first + self._schedule.keys
            begun = self._begin(following, other)
            commit_copies()
            # Warps behind the last query help to copy alone.
            values = values_when(self._has_queries, lambda: self._add_block(first, place, values), values)
            self._end(following, other, begun)
            return values

        begin = [lowest, lowest, zero, zero, *results]
        values = loop_carried(self._scores.columns, self._schedule.keys, begin, add_block, "keys")
        self._store(values[2:4], values[4:], output)

    # Memory

    def _places(self, first: Index) -> tuple[Index, Index]:
        """How far behind the first stage those of a block and of the next one are."""
        size = self._schedule.stage_elements(self._kernel.problem)
        number = first // self._schedule.keys % self._schedule.stages
        return number * size, (Index(1) - number) * size

    def _begin(self, first: Index, place: Index) -> list[list[ir.Value]]:
        return [each.begin(first, place) for each in self._staged]

    def _end(self, first: Index, place: Index, begun: Sequence[Sequence[ir.Value]]) -> None:
        for staged, values in zip(self._staged, begun, strict=True):
            staged.end(first, place, values)

    def _clear_keys(self) -> None:
        """Zeros for the channels that all stages have behind those of keys."""
        first = ceil_div(self._scores.reduction, QUAD)
        quads = self._channels // QUAD - first
        zeros = constant_quad(0.0, F32.type)
        size = self._schedule.stage_elements(self._kernel.problem)
        count = self._schedule.keys * quads
        for stage in range(self._schedule.stages):
            keys = self._of_keys.behind(stage * size)
            for number, exists in numbers_of_thread(thread_id(), self._schedule.threads, count):
                at = [number // quads, number % quads + first]
                when(exists, lambda keys=keys, at=at: keys.store(zeros, at))  # type: ignore[misc]

    # A block of keys

    def _add_block(self, first: Index, place: Index, values: Sequence[ir.Value]) -> list[ir.Value]:
        largest, sums, results = list(values[:2]), list(values[2:4]), list(values[4:])
        tiles = [first + tile * _COLUMNS for tile in range(self._schedule.keys // _COLUMNS)]
        masks = [self._masks_of(tile) for tile in tiles]
        scores = [
            self._existing(tile, [self._masks.masked(*each) for each in zip(scores, mask, strict=True)])
            for tile, scores, mask in zip(tiles, self._scored(place), masks, strict=True)
        ]
        scales = []
        for row in range(2):
            of_row = [each[row * PAIR + i] for each in scores for i in range(PAIR)]
            found = self._over_row(reduce(arith.maxnumf, of_row), arith.maxnumf)
            now = arith.maxnumf(largest[row], found)
            scales.append(self._exponential(arith.subf(largest[row], now)))
            largest[row] = now
            for each in scores:
                for i in range(row * PAIR, (row + 1) * PAIR):
                    each[i] = self._exponential(arith.subf(each[i], now))
            of_row = [each[row * PAIR + i] for each in scores for i in range(PAIR)]
            sums[row] = math.fma(sums[row], scales[row], reduce(arith.addf, of_row))
        return [*largest, *sums, *self._mixed(place, scores, scales, results)]

    def _masks_of(self, first: Index) -> list[list[ir.Value]]:
        """Those of this thread's scores of eight keys."""
        query = self._first + self._warp_row + self._lane_row
        key = first + self._lane_place * PAIR
        return [self._masks.load(query + row, key + i) for row in (0, _HALF_ROWS) for i in range(PAIR)]

    def _exponential(self, difference: ir.Value) -> ir.Value:
        """Of a difference of two scores. Masks may be close to the largest numbers: they get no factor."""
        if self._kernel.problem.masks:
            difference = arith.mulf(difference, constant_like(difference, LOG2_E))
        return power_of_two(difference)

    def _scored(self, place: Index) -> Iterator[Sums]:
        """Of each eight keys of a block this thread's scores, by powers of two unless they are masked."""
        keys, count = self._of_keys.behind(place), self._schedule.keys // _COLUMNS
        whole = self._channels // _SUMMED_CHANNELS * _SUMMED_CHANNELS
        # Threads would load more of many channels than they have registers for.
        together = whole if whole <= _UNROLLED_CHANNELS else _SUMMED_CHANNELS

        def add(first: Index, values: list[ir.Value]) -> list[ir.Value]:
            products = self._products_of(values, count)
            for channel in range(0, together, _SUMMED_CHANNELS):
                self._add_channels(first + channel, keys, products, QUAD)
            return [value for each in products for value in each.values]

        summed = [value for _ in range(count) for value in SingleProducts(self._schedule.products).values]
        if whole:
            summed = loop_carried(whole, together, summed, add, "channels")
        products = self._products_of(summed, count)
        if whole < self._channels:
            self._add_channels(Index(whole), keys, products, PAIR)
        factor = self._scores.factor * (1 if self._kernel.problem.masks else LOG2_E)
        for each in products:
            yield [
                arith.mulf(score, constant_like(score, factor)) for score in each.sums(keeps_infinity=True)
            ]

    def _products_of(self, values: Sequence[ir.Value], count: int) -> list[SingleProducts]:
        """Of so many tiles, what a loop carries of which are all of these."""
        size = len(values) // count
        products = self._schedule.products
        return [SingleProducts(products, values[i * size : (i + 1) * size]) for i in range(count)]

    def _add_channels(
        self, first: Index, keys: SharedRows, products: Sequence[SingleProducts], width: int
    ) -> None:
        """Products of 16 channels, or of eight, of which a thread reads so many neighbours."""
        column = self._lane_place * width + first
        upper, lower = (
            self._of_queries.load(self._warp_row + self._lane_row + half, column, width)
            for half in (0, _HALF_ROWS)
        )
        # The second neighbour comes first: a whole vector in order would be a cast, which isn't lowered.
        pairs = [(i + 1, i) for i in range(0, width, PAIR)]
        rows = [self._parts([of_row[i] for i in pair for of_row in (upper, lower)]) for pair in pairs]
        for tile, each in enumerate(products):
            key = keys.load(self._lane_row + tile * _COLUMNS, column, width)
            for row, pair in zip(rows, pairs, strict=True):
                each.add(row, self._parts([key[i] for i in pair]))
            each.end_block()

    def _existing(self, first: Index, scores: Sums) -> Sums:
        """Minus infinity for keys behind the last one."""
        count = self._scores.columns
        if count % self._schedule.keys == 0:
            return scores
        none = constant_like(scores[0], -np.inf)
        exist = [(first + self._lane_place * PAIR + i).less_than(count).value for i in range(PAIR)]
        return [arith.select(exist[i % PAIR], score, none) for i, score in enumerate(scores)]

    def _mixed(
        self, place: Index, weights: Sequence[Sums], scales: Sequence[ir.Value], results: list[ir.Value]
    ) -> list[ir.Value]:
        """Scaled results, and what the block's weights mix of its values."""
        values = self._of_values.behind(place)
        # Sums of neighbouring keys count as those of keys that are four apart.
        rows = [self._parts([each[i] for i in (0, 2, 1, 3)], is_rounded=False) for each in weights]
        mixed = []
        done = 0
        for channel, width in self._value_groups():
            products = [SingleProducts(self._schedule.products) for _ in range(width)]
            for tile, row in enumerate(rows):
                key = self._lane_place * PAIR + tile * _COLUMNS
                pair = [values.load(key + i, self._lane_row * width + channel, width) for i in range(PAIR)]
                for number, each in enumerate(products):
                    each.add(row, self._parts([of_key[number] for of_key in pair]))
            for each in products:
                each.end_block()
                before = results[done : done + 2 * PAIR]
                mixed += [
                    math.fma(result, scales[i // PAIR], sum_)
                    for i, (result, sum_) in enumerate(zip(before, each.sums(), strict=True))
                ]
                done += 2 * PAIR
        return mixed

    def _value_groups(self) -> Iterator[tuple[int, int]]:
        """The first channels of groups of values, and how many neighbours of them a thread reads."""
        end = ceil_div(self._mixtures.columns, _COLUMNS) * _COLUMNS
        widths = [QUAD, PAIR, 1] if end <= _LOADED_BY_QUADS else [PAIR, 1]
        channel = 0
        while channel < end:
            width = next(each for each in widths if channel + each * _COLUMNS <= end)
            yield channel, width
            channel += width * _COLUMNS

    def _parts(self, elements: Sequence[ir.Value], *, is_rounded: bool = True) -> Parts:
        """Fragments of numbers; with one product those of operands are `is_rounded` to TF32 already."""
        if self._schedule.products == 1 and is_rounded:
            return [single_fragment(elements)]
        return parts_of_fragment(elements, 1 if self._schedule.products == 1 else 2)

    def _over_row(self, share: ir.Value, combine: Callable[[ir.Value, ir.Value], ir.Value]) -> ir.Value:
        """What the shares of the four threads of a row are combined to."""
        return over_threads(share, QUAD, combine)

    # The results

    def _store(self, sums: Sequence[ir.Value], results: Sequence[ir.Value], output: GlobalBuffer) -> None:
        for row in range(2):
            inverse = self._kernel.inverse_of(self._over_row(sums[row], arith.addf))
            number = self._first + self._warp_row + self._lane_row + row * _HALF_ROWS
            finished = [
                arith.mulf(results[first + i], inverse)
                for first in range(row * PAIR, len(results), 2 * PAIR)
                for i in range(PAIR)
            ]
            exists = number.less_than(self._scores.rows)

            def store(number: Index = number, finished: list[ir.Value] = finished) -> None:
                self._store_row(number, finished, output)

            when(exists, store)

    def _store_row(self, number: Index, results: Sequence[ir.Value], output: GlobalBuffer) -> None:
        """Writes this thread's results of a query: pairs of each eight columns, by the order of groups."""
        written = self._mixtures.output
        start = matrix_origin(written, self._head) + number * written.row_stride
        done = 0
        for channel, width in self._value_groups():
            pairs = results[done : done + PAIR * width]
            neighbours = [*pairs[::2], *pairs[1::2]]
            done += PAIR * width
            for first in range(0, len(neighbours), QUAD):
                column = self._lane_place * (PAIR * width) + (channel + first)
                self._store_neighbours(start, column, neighbours[first : first + QUAD], output)

    def _store_neighbours(
        self, start: Index, column: Index, elements: Sequence[ir.Value], output: GlobalBuffer
    ) -> None:
        count, written = self._mixtures.columns, self._mixtures.output
        is_whole = count % _COLUMNS == 0
        if output.by_quads:
            exists = Condition(True) if is_whole else column.less_than(count)
            if len(elements) == QUAD:
                output.store(quad_of(elements), start + column, exists)
            else:
                place, pair = (start + column) // PAIR, quad_of(elements)
                when(exists, lambda: memref.store(pair, self._pairs, [place.value]))
            return
        for i, element in enumerate(elements):
            exists = Condition(True) if is_whole else (column + i).less_than(count)
            offset = start + (column + i) * written.column_stride
            when(exists, lambda v=element, at=offset: output.store_scalar(v, at))  # type: ignore[misc]
