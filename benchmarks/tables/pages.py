"""Markers in Markdown, and the tables between them.

    <!-- table: networks models-zen5-1-thread.json -->
    <!-- end of table -->

The first word names a table of `TABLES`, the rest files of `benchmarks/results`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.tables import (
    accuracy,
    amd,
    cpu,
    gpu,
    gpu_calls,
    gpu_floors,
    gradients,
    networks,
    people,
    threads,
)
from benchmarks.tables.runs import caption

RESULTS = Path(__file__).parents[1] / "results"

Table = Callable[[Sequence[Any]], list[str]]

TABLES: Mapping[str, Table] = {
    "accuracy": accuracy.relative_errors,
    "amd-between": amd.between,
    "amd-blocks": amd.blocks,
    "amd-by-target": amd.by_target,
    "amd-on-nvidia": amd.on_nvidia,
    "amd-products": amd.products,
    "amd-choices": amd.choices,
    "amd-networks": amd.networks,
    "amd-rdna4": amd.rdna4,
    "compile-time": cpu.compile_time,
    "exhaustive": cpu.exhaustive,
    "gpu-attention": gpu.attention,
    "gpu-between": gpu.between,
    "gpu-call-routes": gpu_calls.call_routes,
    "gpu-calls": gpu_calls.called_networks,
    "gpu-gradients": gpu.gradients,
    "gpu-half": gpu_calls.half_networks,
    "gpu-half-layers": gpu.half_layers,
    "gpu-layer-counters": gpu.layer_counters,
    "gpu-layer-floors": gpu_floors.layer_floors,
    "gpu-layer-limits": gpu.layer_limits,
    "gpu-layers": gpu.layers,
    "gpu-networks": gpu.networks,
    "gpu-open-sizes": gpu_calls.open_sizes,
    "gpu-reductions": gpu.reductions,
    "gpu-searched": gpu_calls.searched_networks,
    "gpu-steps": gpu.steps,
    "gpu-then-and-now": gpu.then_and_now,
    "gradients": gradients.layers,
    "gradients-depthwise": gradients.depthwise,
    "half-precision": networks.half_precision,
    "half-zoo": networks.half_zoo,
    "large-kernels": accuracy.large_kernels,
    "layers": cpu.layers,
    "layouts": cpu.layouts,
    "limits": threads.limits,
    "losses": accuracy.losses,
    "main-loops": cpu.main_loops,
    "models-of-people": people.models,
    "networks": networks.networks,
    "open-sizes": cpu.open_sizes,
    "other-threads": threads.other_threads,
    "quantized": networks.quantized,
    "server-conditions": threads.server_conditions,
    "summary": networks.summary,
    "threads": threads.speedups,
    "torch-compile": networks.torch_compile,
    "torch-compile-failures": networks.torch_compile_failures,
    "torch-compile-sweep": networks.torch_compile_sweep,
    "torch-compile-zoo": networks.torch_compile_zoo,
    "torch-guards": gpu_calls.torch_guards,
    "training-steps": gradients.steps,
    "tuning": cpu.tuning,
    "zoo": networks.zoo,
    "zoo-summary": networks.zoo_summary,
}
"""What makes the lines of a table from the contents of its files."""

_MARKED = re.compile(
    r"(?P<start><!-- table: (?P<name>\S+)(?P<files>(?:\s\S+)+) -->\n).*?(?P<end><!-- end of table -->)",
    re.DOTALL,
)


def filled(page: str) -> str:
    """The page with its tables as the results have them.

    Raises `ValueError` for a table or a file that isn't known.
    """
    return _MARKED.sub(_fill, page)


def _fill(match: re.Match[str]) -> str:
    name, files = match["name"], match["files"].split()
    if name not in TABLES:
        raise ValueError(f"no table is named {name!r}; those that there are: {', '.join(TABLES)}")
    missing = [file for file in files if not (RESULTS / file).is_file()]
    if missing:
        raise ValueError(f"no results in {', '.join(missing)}")
    lines = TABLES[name]([json.loads((RESULTS / file).read_text()) for file in files])
    return "\n".join([match["start"].rstrip("\n"), "", *caption(files), "", *lines, "", match["end"]])
