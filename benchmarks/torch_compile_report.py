"""What `benchmarks.torch_compile` and `.torch_compile_zoo` measured, as Markdown tables."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

Rows = dict[str, dict[str, Any]]

ERROR_FACTOR = 2
"""How many times eager's error a network's may be."""

_COLUMNS = ("network", "parts", "convolutions", "error", "eager's", "ratio", "left to the fallback")


def torch_compile_zoo_table(rows: Rows) -> list[str]:
    """A row per network: its parts, both errors, what is left to the fallback, and findings."""
    lines = [f"| {' | '.join(_COLUMNS)} |", "|" + " --- |" * len(_COLUMNS)]
    lines += [f"| {' | '.join([network, *_cells(row)])} |" for network, row in rows.items()]
    return [*lines, "", *(f"* {finding}" for finding in findings(rows))]


def torch_compile_table(rows: list[dict[str, Any]]) -> list[str]:
    """A row per measurement: each backend's milliseconds in its better layout, the speed-up and the errors.

    Behind them the seconds to the first result, of a process with empty caches and of a second one.
    """
    backends = list(dict.fromkeys(_backend(name) for row in rows for name in row.get("milliseconds", {})))
    heads = [
        "network",
        "batch",
        "threads",
        *(f"{each}, ms" for each in backends),
        "speed-up",
        "error",
        "eager's",
        *(f"{process} process, s" for process in ("first", "second")),
    ]
    lines = [f"| {' | '.join(heads)} |", "|" + " --- |" * len(heads)]
    for row in rows:
        times, errors = (_by_backend(row.get(key, {})) for key in ("milliseconds", "errors"))
        cells = [row["network"], str(row["batch"]), str(row["threads"])]
        cells += [f"{times[each]:.2f}" if each in times else "" for each in backends]
        cells += [f"{row['ratio']:.2f}" if "ratio" in row else "failed"]
        cells += [f"{errors[each]:.1e}" if each in errors else "" for each in ("winograd", "eager")]
        for order in ("first", "second"):
            seconds = row.get(f"{order}_seconds", {})
            cells.append(", ".join(f"{value:.1f}" if value else "failed" for value in seconds.values()))
        lines.append(f"| {' | '.join(cells)} |")
    ratios = [row["ratio"] for row in rows if "ratio" in row]
    mean = f"{statistics.geometric_mean(ratios):.2f}" if ratios else "none"
    return [*lines, "", f"* Speed-up over the best other backend, in the geometric mean: {mean}"]


def _by_backend(values: dict[str, float]) -> dict[str, float]:
    """The least of all layouts."""
    return {
        backend: min(value for name, value in values.items() if _backend(name) == backend)
        for backend in map(_backend, values)
    }


def _backend(contender: str) -> str:
    return contender.rpartition("-")[0]


def findings(rows: Rows) -> Iterator[str]:
    """The mean ratio of the errors, and the networks that don't keep to the bound, or end with an error."""
    ratios = {network: row["error"] / row["eager_error"] for network, row in rows.items() if "error" in row}
    if ratios:
        yield f"Errors over eager's: {statistics.geometric_mean(ratios.values()):.2f} in the geometric mean"
    above = [f"{network} ({ratio:.2f})" for network, ratio in ratios.items() if ratio > ERROR_FACTOR]
    yield f"Above {ERROR_FACTOR} times eager's error: {', '.join(above) or 'none'}"
    unreported = [network for network, row in rows.items() if row.get("left") and not row["warnings"]]
    yield f"Left without a warning: {', '.join(unreported) or 'none'}"
    for network, row in rows.items():
        if "failure" in row:
            yield f"{network} failed: {row['failure']}"


def _cells(row: dict[str, Any]) -> list[str]:
    if "error" not in row:
        return [""] * (len(_COLUMNS) - 1)
    return [
        str(row.get("parts", "")),
        str(row.get("convolutions", "")),
        f"{row['error']:.1e}",
        f"{row['eager_error']:.1e}",
        f"{row['error'] / row['eager_error']:.2f}",
        "; ".join(row.get("left", ())),
    ]
