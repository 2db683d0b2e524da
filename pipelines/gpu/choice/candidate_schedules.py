"""The schedules among which that of a convolution on a GPU is chosen: which are worth predicting."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from iree.winograd.passes.match.convolutions.problem import OTHER_SIZES
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.gpu.schedules.fit import GpuSchedule, is_depthwise, kernel_misfit
from iree.winograd.pipelines.machines.model import GpuMachine
from iree.winograd.pipelines.problems.shape import ConvolutionShape, WeightGradientShape

from .column_schedules import depthwise_schedules, grouped_schedules
from .fused_schedules import fused_schedules
from .gemm_schedules import gemm_schedules
from .gemv_schedules import gemv_schedules
from .matrix_unit_schedules import matrix_schedules
from .warpgroup_schedules import (
    alternating_schedules,
    both_widths,
    gathering_schedules,
    mapping_schedules,
)
from .weight_gradient_schedules import weight_gradient_schedules


def schedules(shape: ConvolutionShape, target: GpuTarget, machine: GpuMachine) -> Iterator[GpuSchedule]:
    """All schedules for a convolution of the expected sizes that keep the target's limits."""
    if isinstance(shape, WeightGradientShape):
        yield from weight_gradient_schedules(shape, target, machine)
        return
    if is_depthwise(shape):
        yield from depthwise_schedules(shape, target, machine)
        return
    yield from gemm_schedules(shape, target, machine)
    yield from gemv_schedules(shape, target, machine)
    yield from matrix_schedules(shape, target, machine)
    yield from fused_schedules(shape, target, machine)
    yield from grouped_schedules(shape, target, machine)


def schedules_of_all_sizes(
    shape: ConvolutionShape, target: GpuTarget, machine: GpuMachine
) -> Iterator[GpuSchedule]:
    """Those that suit images of half and twice the expected sizes, too, where any may come."""
    others = [shape.resized(times) for times in OTHER_SIZES if shape.unknown_sizes]
    for schedule in schedules(shape, target, machine):
        if all(kernel_misfit(each, target, schedule) is None for each in others):
            yield schedule


def unpredicted_schedules(
    shape: ConvolutionShape, target: GpuTarget, machine: GpuMachine
) -> Iterator[GpuSchedule]:
    """Schedules that a tuner may find to be faster than predictions say, which leave out some of them."""
    if isinstance(shape, WeightGradientShape) or is_depthwise(shape) or machine.matrix_flops is None:
        return
    sizes = [shape, *(shape.resized(times) for times in OTHER_SIZES if shape.unknown_sizes)]
    gathering = both_widths(gathering_schedules(shape, machine), shape)
    alternating = alternating_schedules(shape, machine)
    for schedule in chain(mapping_schedules(shape, machine), gathering, alternating):
        if all(kernel_misfit(each, target, schedule) is None for each in sizes):
            yield schedule
