"""What is chosen for networks of pytorchcv on AMD's GPUs, and predicted beside IREE's own code.

    python -m benchmarks.amd.zoo --output benchmarks/results/amd-zoo.json

Nothing is compiled. IREE's code is one kernel that computes the direct convolution. It is taken for the
fastest of our direct kernels that don't share a sum, in as many workgroups. On CDNA it multiplies on the same
matrix units, as fast. Elsewhere its products are taken to reach the part `REACHED` of the greatest bound that
`benchmarks.amd --stock` found. Depthwise layers are taken to be alike.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from types import MappingProxyType

from iree.winograd.calibration.programs import backend_of
from iree.winograd.passes.match.problem import ConvolutionProblem
from iree.winograd.pipelines.gpu.backend import GpuBackend
from iree.winograd.pipelines.gpu.choice.cost_model import PRODUCT_LATENCY, launch_seconds
from iree.winograd.pipelines.gpu.choice.default_schedule import gemm_schedules
from iree.winograd.pipelines.gpu.choice.rates import REACHED, product_rate
from iree.winograd.pipelines.gpu.choice.search_space import GpuSearchSpace
from iree.winograd.pipelines.gpu.schedules.fit import is_depthwise
from iree.winograd.pipelines.gpu.schedules.gemm import GemmSchedule
from iree.winograd.pipelines.machines.amd import AmdFamily, amd_family
from iree.winograd.pipelines.selection.candidates import convolution_shape, direct_algorithm
from iree.winograd.pipelines.selection.chooser import choose_predicted
from iree.winograd.pipelines.selection.decision import Candidate
from iree.winograd.pipelines.selection.prediction import (
    IREE_TOLERANCE,
    attainable_limit,
    error_limit,
    predict_fastest,
)

from benchmarks.amd.zoo_layers import NETWORKS, network_layers
from benchmarks.results_file import ResultsFile

BATCHES = (1, 32)
TARGETS = (
    "vulkan:rdna2",
    "vulkan:rdna3",
    "vulkan:rdna4",
    "hip:gfx90a",
    "hip:gfx942",
    "hip:gfx1100",
    "hip:gfx1201",
)
STOCK_BOUNDS: Mapping[AmdFamily, tuple[float, float]] = MappingProxyType(
    {AmdFamily.RDNA2: (0.50, 0.94), AmdFamily.RDNA3: (0.27, 0.61), AmdFamily.RDNA4: (0.50, 0.61)}
)
"""Of IREE's loops, of layers of several taps and of one. Those that read all operands from caches, as by LLVM
on RDNA 4, have bounds of up to 0.99, which these caches aren't in."""


@dataclass(frozen=True)
class Predicted:
    """What is predicted of a layer."""

    chosen: Candidate | None
    """None where it is left to IREE."""
    seconds: float
    stock_seconds: float


def predicted(problem: ConvolutionProblem, space: GpuSearchSpace) -> Predicted:
    """What is chosen for a layer by default, and what IREE's own code is taken to need."""
    if space.problem_misfit(problem) is not None:
        return Predicted(None, 0.0, 0.0)
    asked = error_limit(problem, space, None, None)
    candidates = predict_fastest(problem, space, asked)
    limit = attainable_limit(problem, asked, candidates)
    chosen, _ = choose_predicted([each for each in candidates if each.keeps(limit)])
    seconds = chosen.predicted_seconds
    return Predicted(chosen, seconds, stock_seconds(problem, space) or seconds)


def stock_seconds(problem: ConvolutionProblem, space: GpuSearchSpace) -> float | None:
    """Of IREE's own code; None where it isn't compared."""
    shape, machine = convolution_shape(problem, direct_algorithm(problem)), space.machine
    if is_depthwise(shape):
        return None
    family = amd_family(machine.name)
    bounds = None if family is None else STOCK_BOUNDS.get(family)
    bound = None if bounds is None else bounds[prod(shape.kernel_size) == 1]
    size = shape.images * (shape.image_bytes + shape.result_bytes) + shape.filter_bytes
    moving = size / machine.memory_bandwidth

    def seconds(schedule: GemmSchedule) -> float:
        products = space.stage_seconds(shape, schedule)["products"]
        slowed = 1.0 if bound is None else product_rate(schedule, machine) / (REACHED * bound * machine.flops)
        return max(moving, PRODUCT_LATENCY + (products - PRODUCT_LATENCY) * slowed)

    whole = (each for each in gemm_schedules(shape, space.target, machine) if each.reduction_parts == 1)
    return min(map(seconds, whole)) + launch_seconds(machine)


def _row(layers: Sequence[ConvolutionProblem], target: str) -> dict[str, object]:
    backend = backend_of(target)
    assert isinstance(backend, GpuBackend)
    space = backend.search_space()
    each = [predicted(layer, space) for layer in layers]
    kinds = Counter(one.chosen.implementation.schedule.kind if one.chosen else "iree" for one in each)
    slower = [
        {"layer": str(layer), "seconds": one.seconds, "stock_seconds": one.stock_seconds}
        for layer, one in zip(layers, each, strict=True)
        if one.seconds > (1 + IREE_TOLERANCE) * one.stock_seconds
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
