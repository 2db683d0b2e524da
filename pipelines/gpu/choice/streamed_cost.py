"""What direct convolutions take whose pixels stream through warps."""

from __future__ import annotations

from collections.abc import Mapping
from math import hypot, prod

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.gpu.device.matrix_unit import MATRIX_ROWS
from iree.winograd.pipelines.gpu.packing.streamed import StreamedPacking
from iree.winograd.pipelines.gpu.schedules.streamed import StreamedSchedule
from iree.winograd.pipelines.machines.model import GpuMachine
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .cost_model import clock_rate, launch_seconds
from .streamed_warpgroups_cost import streamed_warpgroups_seconds

BEGIN_SECONDS = {16: 1.4e-6, 32: 2.1e-6}
"""By the rows of a block, until code and filters begin to come: that of more rows is longer. Where other
kernels run between, an H200 took 2.4 to 3.6 us and 3 to 5.5 for small layers; where the code is there, it
takes a microsecond less."""
OPEN_SECONDS = {16: 0.15e-6, 32: 0.5e-6}
"""The same of sizes known only at run time, for each 16 columns of a step: each store is conditional, and
code longer. Where other kernels run between, an H200 took 2.2 and 2.7 us for small images by one of these,
4.0 by ten, 80 channels to 32, for which implicit products take 2.6."""
ACCESS_CYCLES = 8
"""Of a first cache, for what a warp loads or stores of eight pixels at once: each is another line."""
FRAGMENT_CYCLES = 4
"""Of shared memory, for 16 columns of a step; and of a first cache for what finishes a quad of outputs."""
PEAK_FRACTION = 0.6
"""Of the rate of matrix units, that warps reach."""
SPLITTING_CYCLES = 12
"""Of a multiprocessor, for a quad of a pixel that is scaled and split, of each thread of a warp."""
TAP_CYCLES = 5
"""The same for where a tap is of a pixel, and whether it exists."""
BLOCK_CYCLES, COLUMNS_CYCLES, PRODUCT_CYCLES = 800, 100, 33
"""Of a warp alone, until its pixels are there, from fragments of some columns to their stores, and until a
product is there that another is added to."""
FILLING_WARPS = 16
"""Of a multiprocessor, that hide what each waits for."""


def streamed_seconds(
    shape: ConvolutionShape, schedule: StreamedSchedule, machine: GpuMachine
) -> Mapping[str, float]:
    """Seconds of the one kernel of a convolution, and of its launch.

        direct = begin + filters / cache + cycles of a lone warp's first block / clock rate
                 + root of the sum of squares of bytes / bandwidth of memory
                 and cycles of all blocks / multiprocessors / clock rate / busy part

    A block of a warp takes those cycles of what its loads, stores and fragments keep the first cache busy,
    or those of matrix units, whichever are more, and what it computes besides. A lone warp waits for each of
    its products.
    """
    if schedule.warpgroup_columns is not None:
        return streamed_warpgroups_seconds(shape, schedule, machine)
    if machine.matrix_flops is None:
        raise ValueError(f"the rate of the matrix units of {machine.name} isn't known")
    packing = StreamedPacking(shape, schedule)
    tiles, columns = schedule.block_rows // MATRIX_ROWS, schedule.block_columns // MATRIX_ROWS
    blocks = ceil_div(shape.images * prod(shape.output_size), schedule.block_rows)
    blocks *= packing.column_blocks * shape.groups
    loads = packing.steps - packing.octet_steps // 2
    stores = columns / (2 if schedule.has_octets_of_results(shape) else 1)
    finishing = 1 + schedule.scales_operands
    cached = 2 * tiles * ACCESS_CYCLES * (loads + stores)
    cached += FRAGMENT_CYCLES * columns * (packing.steps * schedule.parts + finishing)
    clock = clock_rate(machine)
    operations = 2 * schedule.block_rows * schedule.block_columns * packing.steps * MATRIX_ROWS
    rate = PEAK_FRACTION * machine.matrix_flops / (machine.multiprocessors * clock)
    multiplied = operations * schedule.products / rate
    quads = 2 * tiles * packing.steps
    computed = SPLITTING_CYCLES * quads if schedule.scales_operands else 0
    computed += TAP_CYCLES * quads if packing.views > 1 else 0
    warps = min(schedule.resident_workgroups * schedule.warps, ceil_div(blocks, machine.multiprocessors))
    cycles = blocks * (max(cached, multiplied) + computed) / min(1.0, warps / FILLING_WARPS) ** 0.5
    moved = shape.images * (packing.column_blocks * shape.image_bytes + shape.result_bytes)
    filters = schedule.bytes_for(shape) * machine.multiprocessors * schedule.resident_workgroups
    begin = BEGIN_SECONDS[schedule.block_rows]
    if shape.unknown_sizes:
        begin += OPEN_SECONDS[schedule.block_rows] * columns * schedule.block_steps(shape)
    return {
        "direct": begin
        + _block_cycles(packing) / clock
        + filters / machine.cache_bandwidth
        + hypot(moved / machine.memory_bandwidth, cycles / (machine.multiprocessors * clock)),
        "launch": launch_seconds(machine),
    }


def _block_cycles(packing: StreamedPacking) -> float:
    """Those of a block of a lone warp."""
    schedule = packing.schedule
    columns = schedule.block_columns // MATRIX_ROWS
    turns = schedule.channel_blocks if schedule.channel_blocks > 1 else columns / (1 + (columns % 2 == 0))
    chain = schedule.block_steps(packing.shape) * schedule.parts * PRODUCT_CYCLES
    return BLOCK_CYCLES + turns * (COLUMNS_CYCLES + chain)
