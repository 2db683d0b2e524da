"""The models that people bring: of `benchmarks.models_of_people`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.tables.markdown import mean, number, table

_OURS = {
    "ours": "import_torch",
    "ours-onnx": "ONNX",
    "ours-onnx-dynamo": "ONNX, dynamo",
    "ours-torch-compile": "torch.compile",
}
_OTHERS = {
    "torch": "torch",
    "inductor": "Inductor",
    "onnxruntime": "ONNX Runtime",
    "openvino": "OpenVINO",
}
_MEBIBYTE = 2**20


def models(files: Sequence[Any]) -> list[str]:
    """A row per model and number of threads: milliseconds of all, the ratio of the best other and ours.

    And memory, the rates that operations make of milliseconds, and what the processor multiplies and adds in
    registers meanwhile, where they were measured.
    """
    rows = [row for file in files for row in file["models_of_people"].values()]
    facts = {head: cell for head, cell in _FACTS.items() if any(map(cell, rows))}
    heads = (
        "model",
        "threads",
        *(f"{each}, ms" for each in _OURS.values()),
        *(f"{each}, ms" for each in _OTHERS.values()),
        "speed-up",
        "error",
        "error, torch",
        *facts,
    )
    speedups = [each for row in rows if (each := speedup(row)) is not None]
    ordered = sorted(rows, key=lambda row: (row["threads"], row["model"]))
    lines = table(heads, [[*_cells(row), *(cell(row) for cell in facts.values())] for row in ordered])
    if speedups:
        lines += ["", f"The geometric mean of {len(speedups)} speed-ups is {mean(speedups):.2f}."]
    return lines


def speedup(row: Mapping[str, Any]) -> float | None:
    """How many times faster `import_torch` is than the best of the others; None without either."""
    tools = row["tools"]
    ours = tools.get("ours", {}).get("milliseconds")
    others = _all_of(tools, _OTHERS, "milliseconds")
    return min(others) / ours if ours and others else None


def _cells(row: Mapping[str, Any]) -> list[str]:
    tools = row["tools"]
    ours, torch = tools.get("ours", {}), tools.get("torch", {})
    return [
        row["model"],
        str(row["threads"]),
        *(_milliseconds(tools.get(tool)) for tool in (*_OURS, *_OTHERS)),
        number(speedup(row), ".2f"),
        number(ours.get("error"), ".1e"),
        number(torch.get("error"), ".1e"),
    ]


def _own_memory(row: Mapping[str, Any]) -> str:
    return number(row["tools"].get("ours", {}).get("memory"), ".0f", 1 / _MEBIBYTE)


def _least_memory(row: Mapping[str, Any]) -> str:
    return number(min(_all_of(row["tools"], _OTHERS, "memory"), default=None), ".0f", 1 / _MEBIBYTE)


def _operations(row: Mapping[str, Any]) -> str:
    return number(row.get("operations"), ".2f", 1e-9)


def _own_rate(row: Mapping[str, Any]) -> str:
    return _rate(row, row["tools"].get("ours", {}).get("milliseconds"))


def _best_rate(row: Mapping[str, Any]) -> str:
    return _rate(row, min(_all_of(row["tools"], _OTHERS, "milliseconds"), default=None))


def _rate(row: Mapping[str, Any], milliseconds: float | None) -> str:
    operations = row.get("operations")
    return "" if operations is None or milliseconds is None else f"{1e-6 * operations / milliseconds:.0f}"


def _peak(row: Mapping[str, Any]) -> str:
    return number(row.get("peak"), ".0f", 1e-9)


def _milliseconds(record: Mapping[str, Any] | None) -> str:
    if record is None:
        return ""
    return "failed" if "failure" in record else number(record.get("milliseconds"), ".2f")


def _all_of(tools: Mapping[str, Any], names: Mapping[str, str], fact: str) -> list[float]:
    return [tools[name][fact] for name in names if fact in tools.get(name, {})]


_FACTS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "memory, MiB": _own_memory,
    "memory, best other": _least_memory,
    "GFLOP": _operations,
    "GFLOP/s": _own_rate,
    "GFLOP/s, best other": _best_rate,
    "in registers": _peak,
}
"""Columns of what may not have been measured, empty where it wasn't."""
