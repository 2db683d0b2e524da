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
    """A row per model and number of threads: milliseconds of all, the ratio of the best other and ours."""
    heads = (
        "model",
        "threads",
        *(f"{each}, ms" for each in _OURS.values()),
        *(f"{each}, ms" for each in _OTHERS.values()),
        "speed-up",
        "error",
        "error, torch",
        "memory, MiB",
        "memory, best other",
    )
    rows = [row for file in files for row in file["models_of_people"].values()]
    speedups = [each for row in rows if (each := speedup(row)) is not None]
    lines = table(heads, map(_cells, sorted(rows, key=lambda row: (row["threads"], row["model"]))))
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
    memory = _all_of(tools, _OTHERS, "memory")
    return [
        row["model"],
        str(row["threads"]),
        *(_milliseconds(tools.get(tool)) for tool in (*_OURS, *_OTHERS)),
        number(speedup(row), ".2f"),
        number(ours.get("error"), ".1e"),
        number(torch.get("error"), ".1e"),
        number(ours.get("memory"), ".0f", 1 / _MEBIBYTE),
        number(min(memory) if memory else None, ".0f", 1 / _MEBIBYTE),
    ]


def _milliseconds(record: Mapping[str, Any] | None) -> str:
    if record is None:
        return ""
    return "failed" if "failure" in record else number(record.get("milliseconds"), ".2f")


def _all_of(tools: Mapping[str, Any], names: Mapping[str, str], fact: str) -> list[float]:
    return [tools[name][fact] for name in names if fact in tools.get(name, {})]
