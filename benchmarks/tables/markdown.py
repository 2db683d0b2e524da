"""Tables in Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table."""
    return [_row(heads), "|" + " --- |" * len(heads), *map(_row, rows)]


def number(value: float | None, style: str, factor: float = 1) -> str:
    """`factor` times the value, or nothing where there is none."""
    return "" if value is None else f"{factor * value:{style}}"


def mean(values: Iterable[float]) -> float:
    """The geometric mean."""
    return statistics.geometric_mean(values)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
