"""Interpolation points: rationals, and infinity."""

from __future__ import annotations

from enum import Enum
from fractions import Fraction


class Infinity(Enum):
    """The point at infinity: the value of a polynomial there is its leading coefficient."""

    INFINITY = "inf"

    def __str__(self) -> str:
        return self.value


INFINITY = Infinity.INFINITY

Point = Fraction | Infinity


def parse_point(text: str) -> Point:
    """The point written as `a`, `a/b`, a decimal or `inf`. Raises ValueError for anything else."""
    text = text.strip()
    if text == INFINITY.value:
        return INFINITY
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError) as error:
        raise ValueError(f"'{text}' is not an interpolation point: write a rational or 'inf'") from error
