"""The models that people bring: of `benchmarks.models_of_people`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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

    And memory, where it was measured.
    """
    rows = [row for file in files for row in file["models_of_people"].values()]
    has_memory = any("memory" in record for row in rows for record in row["tools"].values())
    heads = (
        "model",
        "threads",
        *(f"{each}, ms" for each in _OURS.values()),
        *(f"{each}, ms" for each in _OTHERS.values()),
        "speed-up",
        "error",
        "error, torch",
        *(("memory, MiB", "memory, best other") if has_memory else ()),
    )
    speedups = [each for row in rows if (each := speedup(row)) is not None]
    ordered = sorted(rows, key=lambda row: (row["threads"], row["model"]))
    lines = table(heads, [[*_cells(row), *(_memory(row) if has_memory else ())] for row in ordered])
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


def _memory(row: Mapping[str, Any]) -> list[str]:
    """That of `import_torch` and the least of the others."""
    ours, others = row["tools"].get("ours", {}), _all_of(row["tools"], _OTHERS, "memory")
    return [
        number(ours.get("memory"), ".0f", 1 / _MEBIBYTE),
        number(min(others, default=None), ".0f", 1 / _MEBIBYTE),
    ]


def _milliseconds(record: Mapping[str, Any] | None) -> str:
    if record is None:
        return ""
    return "failed" if "failure" in record else number(record.get("milliseconds"), ".2f")


def _all_of(tools: Mapping[str, Any], names: Mapping[str, str], fact: str) -> list[float]:
    return [tools[name][fact] for name in names if fact in tools.get(name, {})]
