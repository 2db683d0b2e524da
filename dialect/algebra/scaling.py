"""Scales of the columns of A^T and the rows of B^T: G, which is folded ahead of time, takes the inverse."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from iree.winograd.dialect.algebra.cook_toom import CookToom
from iree.winograd.dialect.algebra.point import Infinity, Point


def short_output_scale(points: Sequence[Point], m: int) -> tuple[Fraction, ...]:
    """A scale per point such that the output transform needs the fewest multiplications.

    A row of A^T saves an operation when it has a coefficient of one. The rows of the constants and of the
    highest powers have one from the points zero and infinity; for the others a pair of points +-p is
    scaled by p^-i, which makes its coefficient in row i one. Of equally short choices the one with the
    smallest rounding of the constants in float32 is taken.
    """
    magnitudes = sorted({abs(point) for point in points if not isinstance(point, Infinity) and point != 0})
    rows = range(int(0 in points), m - 1)
    # Rows that have a coefficient of one -> the least rounding of the constants and the scales that give it.
    best: dict[frozenset[int], tuple[float, tuple[Fraction, ...]]] = {frozenset(): (0.0, ())}
    for magnitude in magnitudes:
        extended: dict[frozenset[int], tuple[float, tuple[Fraction, ...]]] = {}
        for covered, (error, scales) in best.items():
            for power in {0, *(row for row in rows if row not in covered and magnitude != 1)}:
                scale = magnitude**-power
                entries = [scale * magnitude**row for row in range(m)]
                now = covered | {row for row in rows if entries[row] == 1}
                total = error + sum(map(rounding, entries))
                if now not in extended or total < extended[now][0]:
                    extended[now] = (total, (*scales, scale))
        best = extended
    _, scales = best[max(best, key=lambda covered: (len(covered), -best[covered][0]))]
    scale_of = dict(zip(magnitudes, scales, strict=True))
    return tuple(
        Fraction(1) if isinstance(point, Infinity) or point == 0 else scale_of[abs(point)] for point in points
    )


def balanced_input_scale(algorithm: CookToom) -> tuple[Fraction, ...]:
    """Powers of two, one per point, that bring the rows of B^T near a 1-norm of one.

    Float32 results don't change; a 16-bit type gets no overflow from the transform's growth.
    """
    return tuple(_power_of_two_near(1 / sum(map(abs, row), Fraction(0))) for row in algorithm.input)


def balanced_output_scale(algorithm: CookToom) -> tuple[Fraction, ...]:
    """Powers of two, one per point, that bring the columns of A^T and the rows of G to equal 1-norms."""
    scales = []
    for column, row in zip(zip(*algorithm.output, strict=True), algorithm.filter, strict=True):
        ratio = sum(map(abs, row), Fraction(0)) / sum(map(abs, column), Fraction(0))
        scales.append(_power_of_two_near(Fraction(math.sqrt(ratio))))
    return tuple(scales)


def rounding(value: Fraction) -> float:
    """Relative error of a constant in float32."""
    return float(abs(Fraction(float(np.float32(float(value)))) - value) / abs(value))


def _power_of_two_near(value: Fraction) -> Fraction:
    return Fraction(2) ** round(math.log2(value))
