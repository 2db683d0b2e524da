"""Division of a whole into equal parts of bounded size."""

from __future__ import annotations


def largest_divisor(number: int, most: int) -> int:
    """The largest number that divides `number` and is at most `most`, both positive."""
    return next(each for each in range(min(number, most), 0, -1) if number % each == 0)
