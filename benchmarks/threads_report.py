"""What `benchmarks.threads` measured, as Markdown tables."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]

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


def threads_table(rows: Sequence[Row]) -> list[str]:
    """A row of milliseconds per subject, batch size and number of threads, then means of the ratios."""
    lines = [f"| {' | '.join(_COLUMNS)} |", "|" + " --- |" * len(_COLUMNS)]
    lines += [f"| {' | '.join(_cells(row))} |" for row in rows]
    return [*lines, *(f"| {' | '.join(cells)} |" for cells in _means(rows))]


def kernel_table(rows: Sequence[Row]) -> list[str]:
    """Where the time of a call goes, in microseconds: its kernels, the rest, and how even workgroups are."""
    lines = [
        "| subject | batch | threads | call, us | kernels | the rest | dispatches | an empty one"
        " | workgroups | cores at work | program, MB |",
        "|" + " --- |" * 11,
    ]
    for row in rows:
        kernels = row["kernels"]
        if not kernels:
            continue
        call = 1e3 * row["contenders"]["ours-runner"]["milliseconds"]
        inside = 1e6 * sum(kernel["seconds"] for kernel in kernels)
        busy = 1e6 * sum(kernel["busy_seconds"] for kernel in kernels)
        count = sum(kernel["dispatches"] for kernel in kernels)
        workgroups = sorted({round(kernel["workgroups"]) for kernel in kernels})
        shown = [str(each) for each in workgroups]
        cells = [
            row["name"],
            str(row["batch"]),
            str(row["threads"]),
            f"{call:.0f}",
            f"{inside:.0f}",
            f"{call - inside:.0f}",
            f"{count:.0f}",
            f"{1e6 * row['empty_dispatch_seconds']:.0f}",
            ", ".join(shown) if len(shown) < 4 else f"{shown[0]} to {shown[-1]}",
            f"{busy / inside:.1f}",
            f"{row['program_bytes'] / 1e6:.1f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def limit_table(rows: Sequence[Row]) -> list[str]:
    """How near ours is to the least that its algorithms can take, and how far that is from the best peer.

    There are none for rows without limits.
    """
    lines = [
        "| subject | batch | threads | GFLOP/s | GB/s | GFLOP | filters, MB | limit, ms | ours | limit / ours"
        " | peer / ours | peer / limit |",
        "|" + " --- |" * 12,
    ]
    for row in rows:
        limit = row.get("limit")
        if limit is None:
            continue
        least = limit["milliseconds"]
        ours, peer = (row["contenders"][name]["milliseconds"] for name in ("ours", row["best"]))
        cells = [
            *(str(row[name]) for name in ("name", "batch", "threads")),
            f"{limit['operations_per_second'] / 1e9:.0f}",
            f"{limit['bytes_per_second'] / 1e9:.0f}",
            f"{limit['operations'] / 1e9:.2f}",
            f"{limit['filter_bytes'] / 1e6:.1f}",
            f"{least:.3f}",
            f"{ours:.3f}",
            f"{least / ours:.2f}",
            f"{peer / ours:.2f}",
            f"{peer / least:.2f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines if len(lines) > 2 else []


def _cells(row: Row) -> list[str]:
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


def _means(rows: Sequence[Row]) -> Iterator[list[str]]:
    groups: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["batch"], row["threads"]), []).append(row["ratios"])
    for (batch, threads), ratios in sorted(groups.items()):
        means = []
        for name in ("ours", "ours-runner"):
            values = [each[name] for each in ratios]
            means.append(f"{statistics.geometric_mean(values):.2f} (least {min(values):.2f})")
        yield ["all", str(batch), str(threads), *[""] * 7, *means]
