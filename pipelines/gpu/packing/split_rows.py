"""Between which products kernels hand over numbers that are split."""

from __future__ import annotations

from dataclasses import replace

from iree.winograd.pipelines.gpu.device.memory import OCTET, QUAD
from iree.winograd.pipelines.gpu.schedules.matrix import MatrixSchedule, StagedSchedule
from iree.winograd.pipelines.gpu.schedules.warpgroup import WarpgroupSchedule
from iree.winograd.pipelines.problems.schedule import Schedule
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .split import SPLIT, SplitPacking


def split_rows(
    shape: ConvolutionShape, schedule: Schedule, reading: ConvolutionShape, reading_schedule: Schedule
) -> int | None:
    """The rows of a block of the operand that a result is, which a convolution alone reads.

    None where kernels don't leave or read it so.
    """
    if not leaves_split(shape, schedule) or not isinstance(reading_schedule, StagedSchedule):
        return None
    is_read = reads_split(reading, reading_schedule) and reading.input_channels == shape.output_channels
    return reading_schedule.block_rows if is_read else None


def leaves_split(shape: ConvolutionShape, schedule: Schedule) -> bool:
    """Whether warpgroups finish results in f32, and know the scale of what they multiplied for each.

    Each row of sums is the pixel of its number, of images of known sizes.
    """
    if not isinstance(schedule, WarpgroupSchedule) or not _splits(schedule):
        return False
    is_direct = shape.transform_size == 1 and schedule.reduction_parts == 1 and shape.groups == 1
    is_in_line = set(shape.decomposition.phases) == {1} and not shape.output_channels_first
    is_of_f32 = shape.element_types.result == SPLIT.name
    return is_direct and is_in_line and is_of_f32 and shape.is_of_known_sizes


def reads_split(shape: ConvolutionShape, schedule: Schedule) -> bool:
    """Whether a product of pixels in whole stages of channels reads such results, on the same units."""
    if not isinstance(schedule, StagedSchedule) or not _splits(schedule):
        return False
    if schedule.unit != WarpgroupSchedule.unit or not shape.is_of_single_pixels or shape.groups > 1:
        return False
    has_whole_stages = SplitPacking(shape, schedule).padded_reduction == shape.input_channels
    return has_whole_stages and shape.is_of_known_sizes and not shape.input_channels_first


def storing_split(schedule: WarpgroupSchedule) -> WarpgroupSchedule:
    """The same by which a thread stores 16 bytes of each part at once, where columns are whole steps of that.

    By 8 bytes it takes twice as many stores.
    """
    has_steps = schedule.block_columns % (QUAD * OCTET) == 0
    return replace(schedule, store_width=OCTET) if has_steps else schedule


def _splits(schedule: MatrixSchedule) -> bool:
    return schedule.parts == 2 and schedule.scales_operands
