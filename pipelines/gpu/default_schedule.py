"""The rule that says, without measuring, by which kernels a GPU computes a convolution."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from iree.winograd.pipelines.convolution import ConvolutionShape
from iree.winograd.pipelines.machines.model import GpuMachine

from .cost_model import gemm_seconds
from .fused_cost import fused_seconds
from .schedules import (
    FUSED_SCHEDULES,
    FusedSchedule,
    GemmSchedule,
    fits,
    gemm_schedules,
)
from .target import GpuTarget

GpuSchedule = GemmSchedule | FusedSchedule


def default_schedule(shape: ConvolutionShape, target: GpuTarget, machine: GpuMachine) -> GpuSchedule:
    """Of separate kernels and the fused one that which is predicted to take least time on `machine`."""
    return min(schedules(shape, target), key=lambda each: _seconds(shape, each, machine))


def schedules(shape: ConvolutionShape, target: GpuTarget) -> Iterator[GpuSchedule]:
    """All schedules for a convolution that keep the target's limits."""
    yield from gemm_schedules(shape, target)
    yield from _fused(shape, target)


def refusal(shape: ConvolutionShape, target: GpuTarget, schedule: object) -> str | None:
    """Why the kernels don't compute a convolution by `schedule`, or None where they do."""
    if not isinstance(schedule, GpuSchedule) or not fits(schedule, target):
        return f"{schedule} is no schedule for this convolution within the limits of {target}"
    if isinstance(schedule, FusedSchedule) and schedule.products != shape.transform_size:
        products = f"a schedule for {schedule.products} products"
        return f"{products} doesn't suit a convolution that has {shape.transform_size}"
    return None


def stage_seconds(shape: ConvolutionShape, schedule: GpuSchedule, machine: GpuMachine) -> Mapping[str, float]:
    """Seconds that each stage is predicted to take."""
    if isinstance(schedule, FusedSchedule):
        return fused_seconds(shape, schedule, machine)
    return gemm_seconds(shape, schedule, machine)


def _fused(shape: ConvolutionShape, target: GpuTarget) -> Iterator[FusedSchedule]:
    for schedule in FUSED_SCHEDULES:
        if refusal(shape, target, schedule) is None:
            yield schedule


def _seconds(shape: ConvolutionShape, schedule: GpuSchedule, machine: GpuMachine) -> float:
    return sum(stage_seconds(shape, schedule, machine).values())
