"""What is predicted of layers on AMD's GPUs: of what is chosen, and of IREE's own code.

That is one kernel that computes the direct convolution. It is taken for the fastest of our direct kernels
that don't share a sum, in as many workgroups. On CDNA it multiplies on the same matrix units, as fast.
Elsewhere its products are taken to reach the part `REACHED` of the greatest bound that `benchmarks.amd
--stock` found. Depthwise layers are taken to be alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from types import MappingProxyType

from iree.winograd.passes.match.problem import ConvolutionProblem
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
from iree.winograd.pipelines.selection.prediction import attainable_limit, error_limit, predict_fastest

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
