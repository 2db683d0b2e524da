"""The rule that says, without measuring, by which kernels a GPU computes a convolution."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import geometric_mean

from iree.winograd.passes.match.convolutions.problem import OTHER_SIZES
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.gpu.schedules.fit import GpuSchedule
from iree.winograd.pipelines.machines.model import GpuMachine
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .candidate_schedules import schedules_of_all_sizes
from .stage_seconds import stage_seconds


def default_schedules(
    shape: ConvolutionShape, target: GpuTarget, machine: GpuMachine, image_is_split: bool = False
) -> Sequence[GpuSchedule]:
    """By the accuracy of products and sums those that are predicted to take least time on `machine`.

    The fastest comes first. The image may come split from the layer before. Raises ValueError where none
    fits.
    """
    fastest: dict[tuple[int, int | None, str | None], GpuSchedule] = {}
    for schedule in sorted(
        schedules_of_all_sizes(shape, target, machine),
        key=lambda each: _seconds(shape, each, machine, image_is_split),
    ):
        arithmetic = schedule.matrix_products, schedule.summed_block, schedule.multiplied_type
        fastest.setdefault(arithmetic, schedule)
    if not fastest:
        raise ValueError(f"no schedule keeps the limits of {target}")
    return tuple(fastest.values())


def _seconds(
    shape: ConvolutionShape, schedule: GpuSchedule, machine: GpuMachine, image_is_split: bool
) -> float:
    """Those of images of the expected size, or where others may come in the geometric mean of these."""
    shapes = [shape, *(shape.resized(times) for times in OTHER_SIZES if shape.unknown_sizes)]
    seconds = [
        sum(stage_seconds(each, schedule, machine, image_is_split=image_is_split).values()) for each in shapes
    ]
    return geometric_mean(seconds)
