"""Softmax of rows of scores whose blocks come one after the other (Milakov and Gimelshein, 2018).

As threads of a warpgroup hold 64 rows of scores: a thread has two of them, and of each eight columns a pair.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from iree.winograd.dialect.bindings import arith, ir, math
from iree.winograd.passes.match.products.attention import AttentionProblem
from iree.winograd.pipelines.emission.functions import LOG2_E
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.numbers.f32 import F32
from iree.winograd.pipelines.emission.vectors import constant_like
from iree.winograd.pipelines.gpu.device.exponential import power_of_two
from iree.winograd.pipelines.gpu.device.matrix_unit import MATRIX_ROWS
from iree.winograd.pipelines.gpu.device.memory import PAIR, QUAD, zero_scalar
from iree.winograd.pipelines.gpu.device.shuffles import over_threads

from .attention import LOWEST, Masks

ROWS = 2
"""Of a thread, so far apart:"""
ROW_DISTANCE = MATRIX_ROWS // 2
COLUMNS = 8
"""Of which a thread has a pair of sums in each of its rows."""


@dataclass(frozen=True)
class OnlineSoftmax:
    """That of a thread's rows.

    Its state are, of each row, the largest score so far and the thread's share of the sum of exponentials.
    """

    problem: AttentionProblem
    masks: Masks
    row: Index
    """The first of this thread's."""
    column: Index
    """This thread's first of each eight."""

    def begin(self) -> list[ir.Value]:
        """The state before the first block."""
        zero = zero_scalar(F32.type)
        # No infinity when it is multiplied.
        lowest = constant_like(zero, LOWEST / max(1.0, self._factor))
        return [lowest] * ROWS + [zero] * ROWS

    def weighed(
        self, first: Index, count: int, scores: Sequence[ir.Value], state: Sequence[ir.Value]
    ) -> tuple[list[ir.Value], list[ir.Value], list[ir.Value]]:
        """What a block of so many keys makes of the largest scores and the sums of exponentials so far.

        Behind these what results so far are to be multiplied by, and the block's exponentials.
        """
        largest, sums = list(state[:2]), list(state[2:])
        scores = self._existing(count, self._masked(first, scores))
        scales = []
        for row in range(ROWS):
            places = [i for i in range(len(scores)) if i // PAIR % ROWS == row]
            found = _combined([scores[i] for i in places], arith.maxnumf)
            now = arith.maxnumf(largest[row], over_threads(found, QUAD, arith.maxnumf))
            scales.append(self._exponential_of_difference(largest[row], now))
            largest[row] = now
            for i in places:
                scores[i] = self._exponential(scores[i], now)
            total = _combined([scores[i] for i in places], arith.addf)
            sums[row] = math.fma(sums[row], scales[row], total)
        return [*largest, *sums], scales, scores

    @property
    def _is_scaled_late(self) -> bool:
        """Whether scores are multiplied by their factor as their exponentials are found."""
        return not self.problem.masks and self.problem.scores.factor > 0

    @property
    def _factor(self) -> float:
        """By which differences of scores are multiplied for powers of two."""
        return self.problem.scores.factor * LOG2_E if self._is_scaled_late else LOG2_E

    def _masked(self, first: Index, scores: Sequence[ir.Value]) -> list[ir.Value]:
        """Scores with their factor and masks, or neither yet."""
        if self._is_scaled_late:
            return list(scores)
        masked = []
        for i, score in enumerate(scores):
            scaled = arith.mulf(score, constant_like(score, self.problem.scores.factor))
            query = self.row + i // PAIR % ROWS * ROW_DISTANCE
            masks = self.masks.load(query, first + self.column + column_of(i))
            masked.append(self.masks.masked(scaled, masks))
        return masked

    def _existing(self, count: int, scores: Sequence[ir.Value]) -> list[ir.Value]:
        """Minus infinity for keys behind the last one, of so many of this block."""
        existing = []
        for i, score in enumerate(scores):
            if column_of(i) + COLUMNS > count:
                none = constant_like(score, -np.inf)
                exists = (self.column + column_of(i)).less_than(count)
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


def column_of(number: int) -> int:
    """Behind this thread's first column, that of one of its sums."""
    return number // (PAIR * ROWS) * COLUMNS + number % PAIR


def _combined(values: Sequence[ir.Value], combine: Callable[[ir.Value, ir.Value], ir.Value]) -> ir.Value:
    """In two chains, whose instructions don't wait for each other."""
    return combine(*(reduce(combine, values[i::2]) for i in range(2)))
