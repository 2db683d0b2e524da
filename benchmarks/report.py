"""Prints results of `layers`, `models`, `models_of_people`, `threads`, `zoo`, `torch_compile` as tables.

python -m benchmarks.report benchmarks/results/layers.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.tables.cpu import layers
from benchmarks.tables.people import models as models_of_people
from benchmarks.threads_report import limit_table, threads_table
from benchmarks.torch_compile_report import (
    torch_compile_failures_table,
    torch_compile_sweep_table,
    torch_compile_table,
    torch_compile_zoo_table,
)
from benchmarks.zoo_report import zoo_table

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
        case {"models_of_people": _}:
            return models_of_people([results])
        case {"torch_compile": rows}:
            return torch_compile_table(rows)
        case {"torch_compile_zoo": rows}:
            return torch_compile_zoo_table(rows)
        case {"torch_compile_sweep": rows}:
            return torch_compile_sweep_table(rows)
        case {"torch_compile_failures": rows}:
            return torch_compile_failures_table(rows)
        case {"threads": dict(rows)}:
            return [*threads_table(list(rows.values())), "", *limit_table(list(rows.values()))]
        case {"layers": [{"contenders": _, "height": _}, *_]}:
            return layers([results])
    return None


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
