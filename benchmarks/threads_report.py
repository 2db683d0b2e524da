"""What `benchmarks.threads` measured, as a Markdown table."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

_COLUMNS = (
    "subject",
    "batch",
    "threads",
    "ours",
    "aligned",
    "stock runner",
    "best peer",
    "",
    "IREE",
    "data-tiled",
    "peer / ours",
    "peer / runner",
)
_CONTENDERS = ("ours", "ours-aligned", "ours-runner")


def threads_table(rows: dict[str, dict[str, Any]]) -> list[str]:
    """A row of milliseconds per subject, batch size and number of threads, then means of the ratios."""
    lines = [f"| {' | '.join(_COLUMNS)} |", "|" + " --- |" * len(_COLUMNS)]
    lines += [f"| {' | '.join(_cells(row))} |" for row in rows.values()]
    return [*lines, *(f"| {' | '.join(cells)} |" for cells in _means(rows))]


def _cells(row: dict[str, Any]) -> list[str]:
    def milliseconds(name: str) -> str:
        contender = row["contenders"].get(name, {})
        return f"{contender['milliseconds']:.3f}" if "milliseconds" in contender else ""

    return [
        *(str(row[name]) for name in ("name", "batch", "threads")),
        *map(milliseconds, _CONTENDERS),
        milliseconds(row["best"]),
        row["best"],
        milliseconds("iree"),
        milliseconds("iree-tiled"),
        f"{row['ratios']['ours']:.2f}",
        f"{row['ratios']['ours-runner']:.2f}",
    ]


def _means(rows: dict[str, dict[str, Any]]) -> Iterator[list[str]]:
    groups: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for row in rows.values():
        groups.setdefault((row["batch"], row["threads"]), []).append(row["ratios"])
    for (batch, threads), ratios in sorted(groups.items()):
        means = []
        for name in ("ours", "ours-runner"):
            values = [each[name] for each in ratios]
            means.append(f"{statistics.geometric_mean(values):.2f} (least {min(values):.2f})")
        yield ["all", str(batch), str(threads), *[""] * 7, *means]
