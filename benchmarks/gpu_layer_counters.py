"""What bounds layers on a GPU of NVIDIA, by counters of Nsight Compute (`ncu`).

    python -m benchmarks.gpu_layer_counters benchmarks/results/gpu-layer-limits-large-f32-h200.json \\
        --below 0.7 --jobs 7 --output benchmarks/results/gpu-layer-counters-f32-h200.json

Layers are those of the results of `benchmarks.gpu_layers` that have less than a share of their limit. Chains
are compiled as there. `ncu` has each kernel of a warm call run several times by itself, with clocks and
caches as they are: one that reads what the kernel before it wrote finds that in caches, as in a call.
Durations are longer than those of calls, in which a kernel begins while the one before it ends.
"""

from __future__ import annotations

import argparse
import csv
import json
import multiprocessing
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import iree.winograd
import torch

from benchmarks.gpu_layers import LAYOUT, TYPES, Layer, compiled
from benchmarks.results_file import ResultsFile

COUNTERS = {
    "microseconds": "gpu__time_duration.sum",
    "memory": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "second_cache": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "first_cache": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "shared_and_first_cache_data": "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed",
    "issue": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "multiply_adds": "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active",
    "matrix_units": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "active": "sm__cycles_active.avg",
    "elapsed": "sm__cycles_elapsed.max",
    "warps": "sm__warps_active.avg.pct_of_peak_sustained_active",
}
"""By what they are called in results; percentages but for times and cycles."""
_KEY = re.compile(
    r"(?P<batch>\d+)x(?P<size>\d+)x\d+x(?P<channels>\d+)(<->(?P<outputs>\d+))? (?P<kernel>\d+)x\d+"
    r"(, stride (?P<stride>\d+))?(, (depthwise|groups of (?P<inputs>\d+)))? (?P<type>\w+)"
)
_NANO = {"ns": 1e-3, "nsecond": 1e-3, "us": 1.0, "usecond": 1.0, "ms": 1e3, "msecond": 1e3}


def layer_of(key: str) -> tuple[Layer, str]:
    """The layer of a row of `benchmarks.gpu_layers`, and its type."""
    found = _KEY.fullmatch(key)
    assert found is not None, key
    number = {name: int(value) for name, value in found.groupdict("0").items() if name != "type"}
    channels = number["channels"]
    groups = channels if "depthwise" in key else channels // number["inputs"] if number["inputs"] else 1
    outputs, stride = number["outputs"] or channels, number["stride"] or 1
    layer = Layer(number["batch"], number["size"], channels, outputs, number["kernel"], stride, groups)
    assert f"{layer} {found['type']}" == key
    return layer, found["type"]


def call_each(folder: Path) -> None:
    """Calls all programs of a folder, which a profiler is to see once they are warm."""
    for number, key in enumerate(json.loads((folder / "layers.json").read_text())):
        layer, type_ = layer_of(key)
        image = layer.image().to(TYPES[type_]).cuda()
        ours = iree.winograd.load(folder / str(number) / path_of(layer), "cuda")
        for _ in range(3):
            ours(image)
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStart()
        torch.cuda.nvtx.range_push(f"layer {number}")
        ours(image)
        torch.cuda.synchronize()
        torch.cuda.nvtx.range_pop()
        torch.cuda.cudart().cudaProfilerStop()


def path_of(layer: Layer) -> str:
    """The file's name that `compiled` gives its program."""
    return f"{layer}.vmfb".replace("<->", "-")


def counted(lines: Sequence[str]) -> Iterator[tuple[int, dict[str, str | float]]]:
    """Of each kernel in rows of `ncu`, but for changes of layout, the number of its layer and counters."""
    names, units, *rows = csv.reader(line for line in lines if line.startswith('"'))
    unit_of = dict(zip(names, units, strict=True))
    for values in rows:
        row = dict(zip(names, values, strict=True))
        if any(part in row["Kernel Name"] for part in LAYOUT):
            continue
        number = next(int(found[1]) for each in values if (found := re.search(r"layer (\d+)", each)))
        counters: dict[str, str | float] = {"kernel": row["Kernel Name"]}
        for name, metric in COUNTERS.items():
            value = float(row[metric].replace(",", ""))
            counters[name] = value * _NANO[unit_of[metric]] if name == "microseconds" else value
        yield number, counters


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path, help="of benchmarks.gpu_layers")
    parser.add_argument("--below", type=float, default=0.7, metavar="SHARE", help="of a layer's limit")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--call", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.call is not None:
        call_each(options.call)
        return
    rows = json.loads(options.results.read_text())["layers"]
    keys = [key for key, row in rows.items() if row["limit_us"] < options.below * row["ours_us"]]
    results = ResultsFile(options.output, "layers")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "layers.json").write_text(json.dumps(keys))
        tasks = []
        for number, key in enumerate(keys):
            (folder / str(number)).mkdir()
            tasks.append((*layer_of(key), folder / str(number)))
        with multiprocessing.get_context("fork").Pool(options.jobs, maxtasksperchild=1) as pool:
            pool.map(compiled, tasks, chunksize=1)
        called = [sys.executable, "-m", "benchmarks.gpu_layer_counters", str(options.results), "--call", name]
        profiler = ["ncu", "--clock-control", "none", "--cache-control", "none", "--profile-from-start"]
        profiler += ["off", "--nvtx", "--csv", "--page", "raw", "--metrics", ",".join(COUNTERS.values())]
        told = subprocess.run([*profiler, *called], check=True, capture_output=True, text=True).stdout
    kernels: dict[str, list[dict[str, str | float]]] = {key: [] for key in keys}
    for number, counters in counted(told.splitlines()):
        kernels[keys[number]].append(counters)
    results.add_all({key: {**rows[key], "kernels": each} for key, each in kernels.items()})


if __name__ == "__main__":
    main()
