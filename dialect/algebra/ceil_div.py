"""Division of integers that rounds up."""

from __future__ import annotations


def ceil_div(dividend: int, divisor: int) -> int:
    """The least integer that is at least `dividend / divisor`. Raises ZeroDivisionError."""
    return -(-dividend // divisor)
