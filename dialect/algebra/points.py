"""The shipped interpolation points, one set per alpha, as data with their measured errors."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from iree.winograd.dialect.algebra.point import INFINITY, Point


@dataclass(frozen=True)
class TileErrors:
    """Relative errors of a tile of one channel and 3-tap filters, from `measurement.measured_tile_error`."""

    one_dimensional: float
    two_dimensional: float


@dataclass(frozen=True)
class MeasuredPoints:
    """Finite points with their errors, and those of the set that Mazaheri et al. published for this alpha."""

    points: tuple[Fraction, ...]
    errors: TileErrors
    published: TileErrors | None


def points_for(alpha: int) -> tuple[Point, ...]:
    """The points for tiles of `alpha` inputs: `alpha - 1` rationals and infinity.

    Beyond the largest shipped set, that set grows by reciprocal pairs. Raises ValueError for `alpha < 1`.
    """
    if alpha < 1:
        raise ValueError(f"a tile needs at least one input, but alpha = {alpha}")
    if alpha == 1:
        return (INFINITY,)
    shipped = _shipped()
    if str(alpha) in shipped:
        return (*(Fraction(point) for point in shipped[str(alpha)]["points"]), INFINITY)
    return (*_grown(alpha - 1), INFINITY)


def measured_points() -> dict[int, MeasuredPoints]:
    """The shipped sets by alpha, with the errors that were measured when they were chosen."""
    return {
        int(alpha): MeasuredPoints(
            tuple(map(Fraction, entry["points"])),
            TileErrors(*entry["error"].values()),
            None if entry["published"] is None else TileErrors(*entry["published"].values()),
        )
        for alpha, entry in _shipped().items()
    }


@cache
def _shipped() -> dict[str, Any]:
    """The contents of the data file, read on first use so that importing stays cheap."""
    data: dict[str, Any] = json.loads(Path(__file__).with_name("points.json").read_text())
    return data


def _grown(size: int) -> tuple[Fraction, ...]:
    """0, +-1, and pairs of simple rationals near 1 with their reciprocals."""
    candidates = [Fraction(0), Fraction(1), Fraction(-1)]
    for denominator in count(1):
        for numerator in (denominator + 1, 2 * denominator + 1):
            point = Fraction(numerator, denominator)
            for candidate in (point, -1 / point, 1 / point, -point):
                if candidate not in candidates:
                    candidates.append(candidate)
        if len(candidates) >= size:
            return tuple(candidates[:size])
    raise AssertionError("unreachable")
