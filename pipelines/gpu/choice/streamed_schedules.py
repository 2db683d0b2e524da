"""Schedules of direct convolutions whose pixels stream through warps, among which one is chosen."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.gpu.device.matrix_unit import MATRIX_ROWS, WARP_THREADS
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.gpu.device.warpgroup import registers_of
from iree.winograd.pipelines.gpu.schedules.fit import kernel_misfit
from iree.winograd.pipelines.gpu.schedules.matrix import ROUNDED_PRODUCTS, SPLIT_PRODUCTS
from iree.winograd.pipelines.gpu.schedules.streamed import StreamedSchedule
from iree.winograd.pipelines.machines.model import GpuMachine
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .rounded_products import multiplying_as_is

STREAMED_WARPS = 8
"""Of a workgroup, or as many as divide groups equally."""
STREAMED_ROWS, STREAMED_ROWS_OF_TAPS = (32, 16), (16,)
"""Of a block, of pointwise layers and of others: 32 x 112 x 112 x 24 of groups of 8 and stride 2 took an H200
12.5 us by 16 rows, in f16, and 14.3 by 32."""
RESIDENT_WORKGROUPS = (4, 3, 2, 1)
CHANNEL_BLOCKS = (1, 2, 3, 4, 6, 8)
MOST_KEPT = 10
"""Sixteens of columns of a block, whose sums stay in registers while one block of channels after the other
is multiplied. Of 32 rows there is more than a workgroup: by one an H200 took 43 us for 32 x 56 x 56 x 384 to
96 in f16, by 16 rows 35."""
SUMMED_PRODUCTS, MOST_SUMMED = 64, 96
"""Large products that matrix units sum, and at most where that is a whole block of channels."""
SPARE_REGISTERS, SPARE_REGISTERS_OF_SCALED, SPARE_REGISTERS_OF_KEPT = 54, 50, 66
"""Of a thread, for what is neither of the image nor sums, as an epilogue's operands; where numbers are
scaled; and where sums of all columns are kept."""
WARPGROUP_WARPS = (16, 12, 8, 4)
LEAST_COLUMNS, MOST_COLUMNS, MOST_WARPGROUP_COLUMNS = 32, 96, 256
"""That warpgroups multiply at once, and of all: an H200 took 81 us for 32 x 56 x 56 x 96 to 384 of f32, and
80 by warps alone."""


def streamed_schedules(
    shape: ConvolutionShape, target: GpuTarget, machine: GpuMachine
) -> Iterator[StreamedSchedule]:
    """By products and rows the one of most warps on a multiprocessor that it has registers for."""
    if shape.transform_size > 1 or (len(shape.decomposition.views) > 1 and not _is_narrow(shape)):
        return
    unit = MATRIX_ROWS if shape.exact_type is None or shape.group_outputs <= MATRIX_ROWS else 2 * MATRIX_ROWS
    columns = ceil_div(shape.group_outputs, unit) * unit
    groups = next(each for each in range(STREAMED_WARPS, 0, -1) if shape.groups % each == 0)
    warps = STREAMED_WARPS // groups * groups
    all_rows = STREAMED_ROWS if len(shape.decomposition.views) == 1 else STREAMED_ROWS_OF_TAPS
    for products, rows in product((SPLIT_PRODUCTS, ROUNDED_PRODUCTS), all_rows):
        for resident, blocks in product(RESIDENT_WORKGROUPS, CHANNEL_BLOCKS):
            schedule = StreamedSchedule(
                rows,
                columns,
                warps,
                walking_workgroups=resident * machine.multiprocessors,
                groups=groups,
                channel_blocks=blocks,
                resident_workgroups=resident,
                products=products,
                summed_block=_summed_block(shape, blocks) if products == SPLIT_PRODUCTS else None,
            )
            schedule = multiplying_as_is(schedule, shape)
            if kernel_misfit(shape, target, schedule) is None and _has_registers(shape, schedule):
                yield schedule
                break
    # Of numbers that are split, of unknown sizes, warps alone were the fastest of what was timed.
    is_timed = not shape.unknown_sizes or shape.exact_type is not None
    if target.has_warpgroup_products and shape.groups == 1 and is_timed:
        yield from _by_warpgroups(shape, target, machine)


def _by_warpgroups(
    shape: ConvolutionShape, target: GpuTarget, machine: GpuMachine
) -> Iterator[StreamedSchedule]:
    """By products and warps the one that multiplies most columns at once of those of most workgroups."""
    unit = MATRIX_ROWS if shape.exact_type is None else 2 * MATRIX_ROWS
    columns = ceil_div(shape.group_outputs, unit) * unit
    if columns > MOST_WARPGROUP_COLUMNS:
        return
    for products, warps in product((SPLIT_PRODUCTS, ROUNDED_PRODUCTS), WARPGROUP_WARPS):
        # In half precision 384 to 96 channels of 56 x 56 took 35.5 us without, 30.9 by other kernels.
        ahead = (True, False) if products == SPLIT_PRODUCTS else (True,)
        for is_ahead, resident, together in product(ahead, RESIDENT_WORKGROUPS, _divisors(columns, unit)):
            schedule = StreamedSchedule(
                MATRIX_ROWS,
                columns,
                warps,
                walking_workgroups=resident * machine.multiprocessors,
                resident_workgroups=resident,
                warpgroup_columns=together,
                products=products,
                summed_block=_summed_block(shape, 1) if products == SPLIT_PRODUCTS else None,
            )
            schedule = multiplying_as_is(schedule, shape)
            has_registers = _has_registers_together(shape, schedule, is_ahead=is_ahead)
            if has_registers and kernel_misfit(shape, target, schedule) is None:
                yield schedule
                break


def _divisors(columns: int, unit: int) -> list[int]:
    """Columns that are multiplied at once, most first, as multiples of a unit."""
    most = min(columns, MOST_COLUMNS) // unit * unit
    return [each for each in range(most, LEAST_COLUMNS - 1, -unit) if columns % each == 0]


def _has_registers_together(shape: ConvolutionShape, schedule: StreamedSchedule, *, is_ahead: bool) -> bool:
    """The same as `_has_registers` where warpgroups multiply: with what comes next, if that `is_ahead`."""
    loads = not is_ahead or not schedule.has_turns(shape) or schedule.loads_ahead(shape)
    return loads and schedule.registers_together(shape) <= registers_of(schedule.resident_threads)


def _is_narrow(shape: ConvolutionShape) -> bool:
    """Whether they are groups of half precision: of split numbers an H200 took a quarter longer by these taps
    than by multiply-adds."""
    return shape.groups > 1 and shape.exact_type is not None


def _summed_block(shape: ConvolutionShape, blocks: int) -> int | None:
    """Large products that matrix units sum; None for all of few."""
    each = ceil_div(ceil_div(shape.reduction, MATRIX_ROWS), blocks) * MATRIX_ROWS
    if shape.reduction <= SUMMED_PRODUCTS:
        return None
    return each if blocks > 1 and each <= MOST_SUMMED else SUMMED_PRODUCTS


def _has_registers(shape: ConvolutionShape, schedule: StreamedSchedule) -> bool:
    """Whether there are registers for what a thread has of the image, of two blocks, and for its sums."""
    steps, tiles = schedule.block_steps(shape), schedule.block_rows // MATRIX_ROWS
    # A thread has two quads of a step, of half as many registers as they are where they lie, and as parts.
    held = tiles * steps * (8 if schedule.scales_operands else 4)
    fragments = tiles * steps * 4 * schedule.parts
    kept = schedule.block_columns // MATRIX_ROWS if schedule.channel_blocks > 1 else 1
    if kept > MOST_KEPT or (kept > 1 and tiles > 1 and schedule.resident_workgroups == 1):
        return False
    sums = tiles * kept * 8 * schedule.parts
    spare = SPARE_REGISTERS_OF_SCALED if schedule.scales_operands else SPARE_REGISTERS
    spare = spare if kept == 1 else SPARE_REGISTERS_OF_KEPT
    threads = schedule.resident_workgroups * schedule.warps * WARP_THREADS
    return held + fragments + sums + spare <= registers_of(threads)
