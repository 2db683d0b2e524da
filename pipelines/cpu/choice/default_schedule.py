"""The schedule that a CPU's kernel gets without measurement: the fastest of a few, as predicted."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from math import gcd, inf

from iree.winograd.pipelines.cpu.kernels.kernel_of import misfit, suited_schedules
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.schedules.depthwise import DepthwiseSchedule
from iree.winograd.pipelines.cpu.schedules.direct import DirectSchedule
from iree.winograd.pipelines.cpu.schedules.fit import CpuSchedule
from iree.winograd.pipelines.cpu.schedules.winograd import WinogradSchedule
from iree.winograd.pipelines.machines.model import CpuMachine
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .kernel_choices import KERNEL_CHOICES, stage_seconds


@cache
def fastest_by_kernel(
    shape: ConvolutionShape, target: CpuTarget, machine: CpuMachine, threads: int
) -> tuple[CpuSchedule, ...]:
    """The schedule of each kernel for `shape`, for so many threads of `machine`, the fastest first.

    Those that round operands come last.

    Raises ValueError where none fits: of a batch known only at run time a workgroup transforms all channels.
    """
    last = shape.channels_last

    def seconds(schedule: CpuSchedule) -> float:
        if misfit(schedule, last, target) is not None:
            return inf
        return sum(stage_seconds(shape, schedule, target, machine, threads).values())

    choices = [KERNEL_CHOICES[kind] for kind in suited_schedules(shape, target)]
    # Several divisions of the work may come to one schedule.
    by_kind = [list(dict.fromkeys(each.defaults(shape, target, machine, threads))) for each in choices]
    if not any(by_kind):
        raise ValueError(f"the L2 cache of {target.l2_bytes} bytes holds no tile's inputs or products")
    fastest = [
        _divided(choice.completed(min(candidates, key=seconds), shape, target, machine), shape, threads)
        for choice, candidates in zip(choices, by_kind, strict=True)
        if candidates
    ]
    fitting = [schedule for schedule in fastest if misfit(schedule, last, target) is None]
    if not fitting:
        raise ValueError(misfit(fastest[0], last, target))
    if len(fitting) == 1:
        return tuple(fitting)
    return tuple(sorted(fitting, key=lambda each: (_rounds(each, shape), seconds(each))))


def _divided(schedule: CpuSchedule, shape: ConvolutionShape, threads: int) -> CpuSchedule:
    """The same with a workgroup for each thread, of any size: a block, or a part of its channels."""
    if threads == 1 or not shape.unknown_sizes:
        return schedule
    if isinstance(schedule, (DepthwiseSchedule, DirectSchedule, WinogradSchedule)):
        return replace(schedule, block_multiple=threads // gcd(threads, schedule.channel_splits))
    return schedule


@cache
def transforming_filters(
    shape: ConvolutionShape, target: CpuTarget, machine: CpuMachine, threads: int
) -> tuple[CpuSchedule, ...]:
    """The fastest schedule by which constant filters are transformed in each call, if there is one."""
    last = shape.channels_last
    found = [
        each
        for kind in suited_schedules(shape, target)
        for each in KERNEL_CHOICES[kind].transforming_filters(shape, target, machine, threads)
        if misfit(each, last, target) is None
    ]

    def seconds(schedule: CpuSchedule) -> float:
        return sum(stage_seconds(shape, schedule, target, machine, threads).values())

    return (min(found, key=seconds),) if found else ()


def default_schedules(
    shape: ConvolutionShape, target: CpuTarget, machine: CpuMachine, threads: int
) -> tuple[CpuSchedule, ...]:
    """The fastest of all kernels, the same with shorter sums where these round less, and what rounds factors.

    Where filters are large and tiles few, one that transforms filters in each call is there as well.

    Where the fastest multiplies halves as they are, one that multiplies f32 is there as well.

    Shorter sums take longer: they are for algorithms that exceed an error limit by the first. Raises
    ValueError where none fits.
    """
    default, *others = fastest_by_kernel(shape, target, machine, threads)
    shorter = KERNEL_CHOICES[type(default)].with_shorter_sums(default)
    rounding = [each for each in others if _rounds(each, shape)]
    single = [each for each in others if each.product_type == "f32"] if default.product_type != "f32" else []
    taking = transforming_filters(shape, target, machine, threads)
    return (default, *([] if shorter is None else [shorter]), *single[:1], *taking, *rounding)


def _rounds(schedule: CpuSchedule, shape: ConvolutionShape) -> bool:
    """Whether its kernel rounds the numbers that it multiplies."""
    return schedule.rounded_type(shape.exact_type) is not None
