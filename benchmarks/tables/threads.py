"""What `benchmarks.threads` and `.other_threads` measured."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.tables.markdown import mean, number, table
from benchmarks.threads_report import limit_table

_RUNNERS = ("ours", "ours-runner")


def speedups(files: Sequence[Any]) -> list[str]:
    """Medians over the files of the best other tool's time over ours, by `load` and by the stock runner.

    A column is a number of threads and a batch size; means of layers and of networks follow them.
    """
    ratios: dict[str, dict[tuple[int, int], list[tuple[float, ...]]]] = {}
    for row in (row for file in files for row in file["threads"].values()):
        pair = tuple(float(row["ratios"][name]) for name in _RUNNERS)
        ratios.setdefault(row["name"], {}).setdefault((row["threads"], row["batch"]), []).append(pair)
    medians = {
        name: {column: _medians(pairs) for column, pairs in columns.items()}
        for name, columns in ratios.items()
    }
    columns = sorted({column for each in medians.values() for column in each})
    heads = ("", *(f"{count} thread{'s' * (count > 1)}, batch {batch}" for count, batch in columns))
    rows = []
    for title, names in (
        ("layers, mean", [name for name in medians if name[0].isdigit()]),
        ("networks, mean", [name for name in medians if not name[0].isdigit()]),
    ):
        rows += [(name, *(_pair(medians[name].get(column)) for column in columns)) for name in sorted(names)]
        rows.append((title, *(_pair(_means(medians, names, column)) for column in columns)))
    return table(heads, rows)


def limits(files: Sequence[Any]) -> list[str]:
    """How near the programs come to the least that their algorithms can take."""
    return limit_table([row for file in files for row in file["threads"].values()])


def server_conditions(files: Sequence[Any]) -> list[str]:
    """What kernels that wait in memory take where processors are few or busy, over barriers."""
    heads = ("condition", "threads", "waiting, ms", "barriers, ms", "over barriers", "one in ten")
    return table(
        heads,
        (
            (
                row["condition"],
                str(row["threads"]),
                f"{row['waiting'] * 1e3:.2f}",
                f"{row['barriers'] * 1e3:.2f}",
                f"{row['ratio']:.2f}",
                f"{row['high_ratio']:.2f}",
            )
            for row in (row for file in files for row in file["measured"])
        ),
    )


def other_threads(files: Sequence[Any]) -> list[str]:
    """The time of programs that run on another number of threads than they are compiled for.

    It is over that of programs compiled for the number that they run on.
    """
    cells: dict[tuple[str, int], dict[tuple[int, int], float]] = {}
    for row in (row for file in files for row in file["other_threads"]):
        for compiled, ratio in row["over_own"].items():
            if int(compiled) != row["threads"]:
                cells.setdefault((row["name"], row["batch"]), {})[int(compiled), row["threads"]] = ratio
    columns = sorted({column for each in cells.values() for column in each}, reverse=True)
    heads = ("", "batch", *(f"{compiled} on {count}" for compiled, count in columns))
    return table(
        heads,
        (
            (name, str(batch), *(number(each.get(column), ".2f") for column in columns))
            for (name, batch), each in cells.items()
        ),
    )


def _medians(pairs: Sequence[tuple[float, ...]]) -> tuple[float, ...]:
    return tuple(statistics.median(values) for values in zip(*pairs, strict=True))


def _means(
    medians: dict[str, dict[tuple[int, int], tuple[float, ...]]],
    names: Sequence[str],
    column: tuple[int, int],
) -> tuple[float, ...] | None:
    pairs = [medians[name][column] for name in names if column in medians[name]]
    return tuple(mean(values) for values in zip(*pairs, strict=True)) if pairs else None


def _pair(pair: tuple[float, ...] | None) -> str:
    return "" if pair is None else ", ".join(f"{value:.2f}" for value in pair)
