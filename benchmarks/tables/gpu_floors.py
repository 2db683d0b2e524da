"""Tables of layers of small limits on GPUs, beside what a kernel takes that moves as many bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.tables.markdown import mean, table


def layer_floors(files: Sequence[Any]) -> list[str]:
    """Microseconds in a chain, shares of the floor and of the limit, those of the floor's least first."""
    heads = (
        "layer",
        "us in a chain",
        "floor",
        "share of the floor",
        "limit",
        "share of the limit",
        "the floor's",
        "computed by",
    )
    found = [pair for file in files for pair in file["layers"].items()]
    found.sort(key=lambda pair: pair[1]["floor_us"] / pair[1]["ours_us"])
    rows = [
        (
            name,
            f"{row['ours_us']:.1f}",
            f"{row['floor_us']:.1f}",
            f"{row['floor_us'] / row['ours_us']:.2f}",
            f"{row['limit_us']:.1f}",
            f"{row['limit_us'] / row['ours_us']:.2f}",
            f"{row['limit_us'] / row['floor_us']:.2f}",
            row["schedules"],
        )
        for name, row in found
    ]
    shares = [row["floor_us"] / row["ours_us"] for _, row in found]
    return [
        *table(heads, rows),
        "",
        f"The geometric mean of {len(shares)} shares of the floor is {mean(shares):.2f}.",
    ]
