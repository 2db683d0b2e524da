"""What `benchmarks.torch_compile`, `.torch_compile_zoo` and `.torch_compile_sweep` measured, as tables."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

Rows = dict[str, dict[str, Any]]

ERROR_FACTOR = 2
"""How many times eager's error a network's may be."""

CALL_ERROR_FACTOR, CALL_ERROR = 4, 1e-5
"""The same of a single call, whose errors scatter, and an error that none is blamed for."""
SLOWDOWN = 1.1
"""How many times eager's a call's time may be."""

_SWEEP_COLUMNS = (
    "network",
    "batch",
    "size",
    "error",
    "eager's",
    "first call, s",
    "ms",
    "eager, ms",
    "finding",
)
_LONGEST = 400
"""Characters of a finding that are shown."""
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


def torch_compile_sweep_table(rows: Rows) -> list[str]:
    """What became of the calls of all networks, and a row per call that falls short or has a warning."""
    calls = [(network, call) for network, row in rows.items() for call in row.get("calls", ())]
    lines = [f"| {' | '.join(_SWEEP_COLUMNS)} |", "|" + " --- |" * len(_SWEEP_COLUMNS)]
    for network, call in calls:
        found = [*failures_of_call(call), *call["warnings"]]
        if found:
            batch, _, *size = call["shape"]
            text = "; ".join(found).replace("|", "\\|").replace("\n", " ")
            cells = [network, str(batch), "x".join(map(str, size)), *_call_cells(call), text[:_LONGEST]]
            lines.append(f"| {' | '.join(cells)} |")
    speedups = [
        times["eager"] / times["winograd"] for _, call in calls if (times := call.get("milliseconds"))
    ]
    mean = f"{statistics.geometric_mean(speedups):.2f}" if speedups else "none"
    failed = [f"* {network} failed: {row['failure']}" for network, row in rows.items() if "failure" in row]
    return [
        *lines,
        "",
        f"* Networks: {len(rows)}, calls: {len(calls)}, exceptions: {_count(calls, 'exception')}, "
        f"results off: {sum(is_off(call) for _, call in calls)}, slower than eager: "
        f"{sum(is_slower(call) for _, call in calls)}, processes that failed: {len(failed)}",
        f"* Speed-up over eager, in the geometric mean: {mean}",
        *failed,
    ]


def torch_compile_failures_table(rows: Rows) -> list[str]:
    """A row per network: how many steps failed, and what isn't as it should be then."""
    lines = ["| network | steps | findings |", "| --- | --- | --- |"]
    for network, row in rows.items():
        steps = row.get("steps", [])
        found = [f"{step['step']}: {text}" for step in steps for text in failures_of_step(step)]
        found += [row["failure"]] if "failure" in row else []
        text = "; ".join(found).replace("|", "\\|").replace("\n", " ")
        lines.append(f"| {network} | {len(steps)} | {text[:_LONGEST]} |")
    return lines


def failures_of_call(call: dict[str, Any]) -> Iterator[str]:
    """What a call of the sweep falls short in."""
    if "exception" in call:
        yield call["exception"]
    if is_off(call):
        yield f"error {call['error']:.1e}, eager's {call['eager_error']:.1e}"
    if is_slower(call):
        times = call["milliseconds"]
        yield f"{times['winograd']:.2f} ms, eager {times['eager']:.2f}"


def failures_of_step(step: dict[str, Any]) -> Iterator[str]:
    """What a network falls short in when this step of compiling or calling it fails."""
    yield from failures_of_call(step)
    if step["warns"] and not step["warnings"]:
        yield "no warning"


def is_off(call: dict[str, Any]) -> bool:
    """Whether a result has an error that eager's doesn't explain, NaN for example."""
    return "error" in call and not call["error"] <= max(CALL_ERROR, CALL_ERROR_FACTOR * call["eager_error"])


def is_slower(call: dict[str, Any]) -> bool:
    """Whether a call takes longer than eager's."""
    times = call.get("milliseconds")
    return times is not None and times["winograd"] > SLOWDOWN * times["eager"]


def _call_cells(call: dict[str, Any]) -> list[str]:
    times = call.get("milliseconds", {})
    values = [call.get("error"), call["eager_error"]]
    cells = ["" if value is None else f"{value:.1e}" for value in values]
    cells.append(f"{call['seconds']:.1f}" if "seconds" in call else "")
    return [*cells, *(f"{times[name]:.2f}" if name in times else "" for name in ("winograd", "eager"))]


def _count(calls: list[tuple[str, dict[str, Any]]], key: str) -> int:
    return sum(key in call for _, call in calls)


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
