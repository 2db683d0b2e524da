"""Whether two pointwise layers in a row are one kernel, and by which schedule."""

from __future__ import annotations

from collections.abc import Iterator

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.gpu.packing.split import SPLIT
from iree.winograd.pipelines.gpu.schedules.fit import GpuSchedule
from iree.winograd.pipelines.gpu.schedules.pointwise_pair import (
    PointwisePairSchedule,
    PointwisePairShape,
)
from iree.winograd.pipelines.machines.model import GpuMachine
from iree.winograd.pipelines.problems.group import ConvolutionGroup
from iree.winograd.pipelines.problems.schedule import Schedule

from .pointwise_pair_cost import epilogue_instructions, pointwise_pair_seconds, separate_seconds

EXPECTED_GAIN = 0.9
"""The part of both kernels' time that one kernel is to be predicted to take, at most."""
WARPGROUPS = (3, 2)
SPLITTING_WARPGROUPS = 2
"""Most of f32: three leave threads no registers for pairs beside the sums of more than a few outputs."""
MOST_STAGES = 4
LEAST_BUSY = 0.5
"""Of the multiprocessors, those that have a block at least: of one image of 56 x 56 x 96 it is a fifth of an
H200's, and ConvNeXt-T's pairs took 11.1 us each, two kernels 10.7."""


def pair_schedule(
    widening: tuple[ConvolutionGroup, Schedule],
    narrowing: tuple[ConvolutionGroup, Schedule],
    target: GpuTarget,
    machine: GpuMachine,
) -> PointwisePairSchedule | None:
    """That of one kernel for two layers by their own schedules; None where two are to compute them."""
    (first, schedule), (second, narrowing_schedule) = widening, narrowing
    shape = PointwisePairShape(first.shape, second.shape)
    own = [each for each in (schedule, narrowing_schedule) if isinstance(each, GpuSchedule)]
    if shape.misfit(target) is not None or len(own) < len((schedule, narrowing_schedule)):
        return None
    instructions = epilogue_instructions(first.output_transform)
    found = pointwise_pair_schedule(shape, instructions, target, machine)
    if found is None:
        return None
    seconds = pointwise_pair_seconds(shape, found, instructions, machine)
    return found if seconds <= EXPECTED_GAIN * separate_seconds(shape, own, instructions, machine) else None


def pointwise_pair_schedule(
    shape: PointwisePairShape, instructions: int, target: GpuTarget, machine: GpuMachine
) -> PointwisePairSchedule | None:
    """The one that is predicted to take least, the first layer's epilogue having so many instructions.

    None where there is none, for lack of registers, of memory, or of pixels.
    """
    return min(
        _schedules(shape, target, machine),
        key=lambda each: pointwise_pair_seconds(shape, each, instructions, machine),
        default=None,
    )


def _schedules(
    shape: PointwisePairShape, target: GpuTarget, machine: GpuMachine
) -> Iterator[PointwisePairSchedule]:
    """Each with as many stages as there is memory for."""
    type_ = shape.widening.element_types.input
    multiplied = None if type_ == SPLIT.name else type_
    for warpgroups in WARPGROUPS:
        if multiplied is None and warpgroups > SPLITTING_WARPGROUPS:
            continue
        for stages in range(MOST_STAGES, 1, -1):
            schedule = PointwisePairSchedule(warpgroups, stages, machine.multiprocessors, multiplied)
            if not schedule.has_registers(shape.outputs):
                break
            if schedule.shared_memory_bytes(shape.channels, shape.outputs) <= target.shared_memory_bytes:
                if ceil_div(shape.pixels, schedule.pixels) >= LEAST_BUSY * machine.multiprocessors:
                    yield schedule
                break
