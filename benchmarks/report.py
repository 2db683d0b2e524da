"""Prints results as Markdown tables: of `layers`, `models`, `threads`, `zoo` and `torch_compile`.

python -m benchmarks.report benchmarks/results/layers.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.threads_report import limit_table, threads_table
from benchmarks.torch_compile_report import torch_compile_table, torch_compile_zoo_table
from benchmarks.zoo_report import zoo_table

_LAYOUTS = ("ours-nhwc", "ours-nchw")
_OURS = {"speedup": ".2f", "error": ".1e"}


def main() -> None:
    for path in map(Path, sys.argv[1:]):
        lines = table(json.loads(path.read_text()))
        if lines is None:
            raise SystemExit(f"{path}: results of a benchmark that has no table here")
        print("\n".join(lines))


def table(results: Any) -> list[str] | None:
    """The lines of a table of what a benchmark wrote, None for one that this module has no table for."""
    if isinstance(results, list):
        return model_table(results) if all("tools" in record for record in results) else None
    match results:
        case {"zoo": rows}:
            return zoo_table(rows)
        case {"torch_compile": rows}:
            return torch_compile_table(rows)
        case {"torch_compile_zoo": rows}:
            return torch_compile_zoo_table(rows)
        case {"threads": dict(rows)}:
            return [*threads_table(list(rows.values())), "", *limit_table(list(rows.values()))]
        case {"layers": [{"contenders": _, "height": _}, *_]}:
            return layer_table(results)
    return None


def layer_table(results: dict[str, Any]) -> list[str]:
    """A row per layer: our times in both layouts, those of the best other tool, and the errors of both.

    Cells of a layout that wasn't timed are empty, as are those of other tools where none was.
    """
    lines = [
        "| N x H x W, C -> K | best other | ms | ours NHWC, ms | ours NCHW, ms | speed-up NHWC | NCHW "
        "| effective GFLOP/s | machine's | error, ours | other |",
        "|" + " --- |" * 11,
    ]
    for layer in results["layers"]:
        contenders = layer["contenders"]
        others = {
            name: values
            for name, values in contenders.items()
            if not name.startswith(("ours", "iree", "onednn"))
        }
        best, best_values = min(
            others.items(), key=lambda item: float(item[1]["milliseconds"]), default=("", {})
        )
        ours = [contenders.get(name, {}) for name in _LAYOUTS]
        timed = ours[0] or ours[1]
        shape = f"{layer['batch']} x {layer['height']} x {layer['width']}"
        cells = [
            f"{shape}, {layer['channels']} -> {layer['filters']}",
            best,
            f"{best_values['milliseconds']:.3f}" if best_values else "",
            *(f"{each['milliseconds']:.3f}" if each else "" for each in ours),
            *(f"{layer['speedups'][name]:.2f}" if name in layer["speedups"] else "" for name in _LAYOUTS),
            f"{timed['gflops']:.0f}",
            f"{layer['limits']['flops'] / 1e9:.0f}",
            f"{timed['error']:.1e}",
            f"{best_values['error']:.1e}" if best_values else "",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def model_table(results: list[dict[str, Any]]) -> list[str]:
    """A row per network, batch size and number of threads: every tool's milliseconds, and our speed-up."""
    tools = list(dict.fromkeys(tool for record in results for tool in record["tools"]))
    lines = [
        f"| network | batch | threads | {' | '.join(f'{tool}, ms' for tool in tools)} | speed-up | error |",
        "|" + " --- |" * (len(tools) + 5),
    ]
    for record in results:
        times = {tool: record["times"].get(tool, {}) for tool in tools}
        times = {tool: values for tool, values in times.items() if "milliseconds" in values}
        cells = [record["network"], str(record["batch"]), str(record["threads"])]
        cells += [f"{times[tool]['milliseconds']:.2f}" if tool in times else "" for tool in tools]
        ours = times.get("ours", {})
        cells += [f"{ours[key]:{style}}" if ours.get(key) else "" for key, style in _OURS.items()]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    main()
