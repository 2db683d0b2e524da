"""What direct convolutions take whose pixels stream through warpgroups."""

from __future__ import annotations

from collections.abc import Mapping
from math import hypot, prod

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.gpu.device.matrix_unit import MATRIX_ROWS
from iree.winograd.pipelines.gpu.packing.streamed import StreamedPacking
from iree.winograd.pipelines.gpu.schedules.streamed import StreamedSchedule
from iree.winograd.pipelines.machines.model import GpuMachine
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .cost_model import SCHEDULERS, clock_rate, launch_seconds

BEGIN_SECONDS = 1.6e-6
"""Until code and filters begin to come."""
STEP_INSTRUCTIONS, SCALED_STEP_INSTRUCTIONS = 16, 126
"""Of a warp, for 16 channels of its 16 rows, multiplied as they are or scaled and split."""
COLUMN_INSTRUCTIONS = 5.5
"""Of a column, to finish and store 16 rows of it."""
COLUMNS_INSTRUCTIONS = 100
"""Of columns that are multiplied at once."""
RATE, FILLING_WARPS = 0.95, 16
"""The part of the rates of instructions and of matrix units that so many warps of a multiprocessor reach."""


def streamed_warpgroups_seconds(
    shape: ConvolutionShape, schedule: StreamedSchedule, machine: GpuMachine
) -> Mapping[str, float]:
    """Seconds of the one kernel of a convolution, and of its launch.

        direct = begin + filters / cache
                 + root of the sum of squares of bytes / bandwidth of memory
                 and turns * cycles of a turn / clock rate / part that is reached

    A turn of a multiprocessor takes the cycles of its warps' instructions or of matrix units, whichever are
    more. Warps of several workgroups take turns at the same time.
    """
    if machine.matrix_flops is None or schedule.warpgroup_columns is None:
        raise ValueError(f"the rate of the matrix units of {machine.name} isn't known")
    packing = StreamedPacking(shape, schedule)
    clock = clock_rate(machine)
    rows = ceil_div(shape.images * prod(shape.output_size), MATRIX_ROWS * schedule.row_warps)
    turns = ceil_div(rows * packing.column_blocks, machine.multiprocessors)
    step = SCALED_STEP_INSTRUCTIONS if schedule.scales_operands else STEP_INSTRUCTIONS
    instructions = step * packing.steps + COLUMN_INSTRUCTIONS * schedule.block_columns
    instructions += schedule.block_columns // schedule.warpgroup_columns * COLUMNS_INSTRUCTIONS
    issued = schedule.warps * instructions / SCHEDULERS
    operations = 2 * schedule.row_warps * MATRIX_ROWS * schedule.block_columns * packing.steps * MATRIX_ROWS
    multiplied = operations * schedule.products * machine.multiprocessors * clock / machine.matrix_flops
    rate = RATE * min(1.0, schedule.resident_workgroups * schedule.warps / FILLING_WARPS) ** 0.5
    computed = turns * max(issued, multiplied) / (rate * clock)
    moved = shape.images * (shape.image_bytes + shape.result_bytes)
    read = shape.images * packing.column_blocks * shape.image_bytes
    read += schedule.bytes_for(shape) * machine.multiprocessors * schedule.resident_workgroups
    return {
        "direct": BEGIN_SECONDS
        + schedule.bytes_for(shape) * machine.multiprocessors / machine.cache_bandwidth
        + hypot(moved / machine.memory_bandwidth, computed, read / machine.cache_bandwidth),
        "launch": launch_seconds(machine),
    }
