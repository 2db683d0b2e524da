"""What is chosen for networks of pytorchcv on AMD's GPUs, and predicted beside IREE's own code.

    python -m benchmarks.amd.zoo --output benchmarks/results/amd-zoo.json

Nothing is compiled.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from iree.winograd.calibration.programs import backend_of
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.gpu.backend import GpuBackend
from iree.winograd.pipelines.machines.amd import AmdFamily, amd_family
from iree.winograd.pipelines.selection.prediction import TIME_TOLERANCE

from benchmarks.amd.predicted import predicted
from benchmarks.amd.zoo_layers import BATCHES, NETWORKS, network_layers
from benchmarks.results_file import ResultsFile

TARGETS = (
    "vulkan:rdna2",
    "vulkan:rdna3",
    "vulkan:rdna4",
    "hip:gfx90a",
    "hip:gfx942",
    "hip:gfx1100",
    "hip:gfx1201",
)


def _row(layers: Sequence[ConvolutionProblem], target: str) -> dict[str, object]:
    backend = backend_of(target)
    assert isinstance(backend, GpuBackend)
    space = backend.search_space()
    each = [predicted(layer, space) for layer in layers]
    kinds = Counter(one.chosen.implementation.schedule.kind if one.chosen else "iree" for one in each)
    slower = [
        {"layer": str(layer), "seconds": one.seconds, "stock_seconds": one.stock_seconds}
        for layer, one in zip(layers, each, strict=True)
        if one.seconds > (1 + TIME_TOLERANCE) * one.stock_seconds
    ]
    family = amd_family(backend.name)
    assert isinstance(family, AmdFamily)
    return {
        "target": target,
        "family": family.value,
        "layers": len(layers),
        "kinds": dict(sorted(kinds.items())),
        "seconds": sum(one.seconds for one in each),
        "stock_seconds": sum(one.stock_seconds for one in each),
        "slower": slower,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--networks", nargs="+", default=NETWORKS)
    parser.add_argument("--targets", nargs="+", default=TARGETS)
    parser.add_argument("--output", type=Path, help="a JSON file")
    arguments = parser.parse_args()
    results = ResultsFile(arguments.output, "networks")
    for network in arguments.networks:
        for batch in BATCHES:
            layers = list(network_layers(network, batch))
            for target in arguments.targets:
                name = f"{network}, batch {batch}, {target}"
                if name in results.rows:
                    continue
                row = {"network": network, "batch": batch, **_row(layers, target)}
                results.add(name, row)
                times = f"{1e3 * row['seconds']:.2f} ms, IREE's {1e3 * row['stock_seconds']:.2f}"  # type: ignore[operator]
                print(f"{name}: {times}, {len(row['slower'])} slower, {row['kinds']}", flush=True)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
