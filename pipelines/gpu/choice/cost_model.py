"""What the kernels for a GPU take by their schedule, from counts of operations, bytes and workgroups."""

from __future__ import annotations

from collections.abc import Mapping
from math import hypot, prod, sqrt
from types import MappingProxyType

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.gpu.device.matrix_unit import WARP_THREADS
from iree.winograd.pipelines.gpu.device.memory import QUAD
from iree.winograd.pipelines.gpu.packing.products import ProductPacking
from iree.winograd.pipelines.gpu.schedules.columns import (
    ColumnsSchedule,
    GpuDepthwiseSchedule,
    elements_read,
)
from iree.winograd.pipelines.gpu.schedules.fit import is_depthwise
from iree.winograd.pipelines.gpu.schedules.matrix import MatrixSchedule, StagedSchedule
from iree.winograd.pipelines.gpu.schedules.split import SplitSchedule
from iree.winograd.pipelines.gpu.schedules.warpgroup import WarpgroupSchedule
from iree.winograd.pipelines.machines.amd import amd_family
from iree.winograd.pipelines.machines.model import GpuMachine
from iree.winograd.pipelines.problems.schedule import Schedule
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .rates import product_rate

SCHEDULERS = 4
"""Of one of NVIDIA's multiprocessors, each of which starts an instruction of a warp in a cycle."""
MIN_KERNEL_SECONDS = 2.1e-6
"""Seconds of a kernel that does next to nothing, which are part of a launch as it is calibrated."""
INPUT_LATENCY = 0.7e-6
"""Seconds that an input transform takes beside those of its bytes, and those for each element of a tile: a
thread transforms a tile on its own."""
INPUT_ELEMENT_LATENCY, PAIR_ELEMENT_LATENCY = 48e-9, 33e-9
"""Of a thread with four channels, and with two where these take less time. Of 8 x 32 x 24 x 16 tiles of 64 to
120 elements took an H200 3.4 to 5.0 us by two."""
SPLIT_LATENCY = 1.5e-6
"""Seconds that it takes beside to find the scales of operands that are split."""
KEPT_REGISTERS = 200
"""A thread's, for the elements of a tile: it transforms split operands after it has found their scale."""
SPILLED_EFFICIENCY = 0.78
"""The part of memory's bandwidth that is left where they don't suffice."""
OUTPUT_LATENCY = 1e-6
OUTPUT_ELEMENT_LATENCY = 18e-9
"""For each part of the reduction."""
OUTPUT_EFFICIENCY = 0.87
"""The part of memory's bandwidth that output transforms reach where products don't fit in the cache."""
GATHER_RATE = 1e9
"""Elements per second and multiprocessor that an input transform loads one by one, where channels are no
quads."""
INPUT_STAGE = "input"
"""The kernel that transforms or splits an image."""
PRODUCT_LATENCY = 2.2e-6
"""Seconds that products take beside those of their operations: until the first block is loaded."""
STAGE_LATENCIES: Mapping[type[Schedule], float] = MappingProxyType(
    {SplitSchedule: 0.7e-6, WarpgroupSchedule: 1e-6}
)
"""Seconds from the begin of a stage's copies to their end, which those that are under way share: products of
100 to 361 rows of 384 to 1536 positions took an H200 3.7 us and 0.17 us for each of 32 to 48 stages, by
warpgroups 0.26 for each of 12 to 48."""
CYCLES_OF_LOAD = 4
"""Of a multiprocessor for a quad of each thread of a warp: a first cache gives 128 bytes in a cycle, in which
128 multiply-adds are started."""
INDEX_CYCLES = 60
"""The same of what a thread computes of indices where sizes are known only at run time."""
TAP_ROW_LATENCY = 0.3e-6
"""Seconds until a thread has what a row of taps multiplies: no other row is loaded meanwhile."""
SHARED_FILTER_LATENCY, AHEAD_ROW_LATENCY = 0.3e-6, 0.1e-6
"""The same where a workgroup's filters come first and rows are ahead: what they take behind the image's first
rows, and no more than to begin loads."""
COLUMNS_RATE, AHEAD_RATE = 0.45, 0.85
"""The part of these rates that kernels reach whose threads have columns: 0.4 to 0.55 on an H200. With rows
ahead it took 3.2 to 4.9 us for four images of 7 x 7 taps, where 4.1 to 4.9 are predicted."""
BUSY_THREADS, BUSY_THREADS_AHEAD = 256, 192
"""Of a multiprocessor, by which its first cache is busy: with rows ahead each has more loads under way."""
_FULL_THREADS, _FULL_THREADS_OF_RDNA = 256, 128
"""Threads of products that fill a multiprocessor: two for each lane, of which RDNA has half as many."""


def gemm_seconds(packing: ProductPacking, machine: GpuMachine) -> Mapping[str, float]:
    """Seconds of the kernels of a convolution: one for a direct one, or two in parts, else three.

    Operands that are split are written by a kernel for direct ones, too.

        products = latency + blocks on the fullest multiprocessor * operations / (rate * sqrt(occupancy))
        input    = latency + bytes of the image and of its tiles / bandwidth of where they fit
        output   = latency + bytes of the products and of the result / bandwidth of where they fit

    with the padding to whole quads and blocks. Copied stages take a latency more, and no less in all than

        rounds of resident workgroups * stages * latency / stages under way

    Operands that are split are read again from the cache for each
    further view, and all of them twice where threads can't keep a tile until they know its scale. Output
    transforms reach 0.87 of memory's bandwidth. Products take no less than their bytes, and on matrix units,
    or of the image itself, the root of the sum of the squares of the two; input transforms take no less than
    it takes to gather channels that are no whole quads.
    """
    shape, schedule = packing.shape, packing.schedule
    types, operand_bytes = shape.element_types, packing.operand_bytes
    on_matrix_units = schedule.matrix_products > 0
    parts, reduction, columns = schedule.reduction_parts, packing.padded_reduction, packing.padded_filters
    batch = shape.images
    batch_tiles = batch * prod(shape.tiles_per_image)
    row_blocks = ceil_div(batch_tiles, schedule.block_rows)
    rows = row_blocks * schedule.block_rows
    gemms = packing.products
    blocks = row_blocks * columns // schedule.block_columns
    most = ceil_div(blocks * packing.slots, machine.multiprocessors)
    occupancy = sqrt(min(1.0, most * schedule.threads / full_threads(machine)))
    rate = product_rate(schedule, machine) * occupancy
    longest = most_reduction(packing, blocks, machine.multiprocessors)
    operations = 2 * schedule.block_rows * schedule.block_columns * longest
    computed = operations * machine.multiprocessors / rate
    image, result = batch * shape.image_bytes, batch * shape.result_bytes
    filters = operand_bytes * gemms * reduction * columns
    is_direct = shape.transform_size == 1
    tiles = image if packing.reads_image else operand_bytes * gemms * rows * reduction
    sums = types.accumulator_bytes * packing.slots * rows * columns
    gathered = 0 if packing.image_by_quads else gemms * rows * packing.reduction
    stages = {}
    if not packing.reads_image:
        gathering = gathered / (GATHER_RATE * machine.multiprocessors)
        latency = INPUT_LATENCY + INPUT_ELEMENT_LATENCY * shape.transform_size
        latency += SPLIT_LATENCY if _finds_scales(packing) else 0
        moving = moved_seconds(image, tiles, machine) / _kept(shape, on_matrix_units)
        moving += (packing.input_passes - 1) * image / machine.cache_bandwidth
        stages[INPUT_STAGE] = latency + max(moving, gathering)
    written = result if is_direct and parts == 1 else sums
    moved = (filters + tiles + written) / machine.memory_bandwidth
    stages["products"] = (
        PRODUCT_LATENCY + _staged_seconds(packing, most, longest, hypot(computed, moved))
        if on_matrix_units or packing.reads_image
        else max(PRODUCT_LATENCY + computed, moved)
    )
    return with_output_seconds(packing, stages, machine)


def with_output_seconds(
    packing: ProductPacking, before: Mapping[str, float], machine: GpuMachine
) -> Mapping[str, float]:
    """The seconds of the stages up to the products, those of the transform after them, and their launches."""
    shape, parts, stages = packing.shape, packing.schedule.reduction_parts, dict(before)
    if shape.transform_size > 1 or parts > 1:
        tiles = shape.images * prod(shape.tiles_per_image)
        sums = shape.element_types.accumulator_bytes * tiles * shape.output_channels
        loaded = packing.slots // shape.groups
        read = sums * loaded
        latency = OUTPUT_LATENCY + OUTPUT_ELEMENT_LATENCY * loaded
        efficiency = 1.0 if read <= machine.cache_size else OUTPUT_EFFICIENCY
        result = shape.images * shape.result_bytes
        stages["output"] = latency + moved_seconds(result, read, machine) / efficiency
    return stages | {"launch": len(stages) * launch_seconds(machine)}


def most_reduction(packing: ProductPacking, blocks: int, multiprocessors: int) -> int:
    """Positions of the reduction of all blocks of the fullest multiprocessor, of so many of each product.

    They take blocks in turns, first whole ones, then those in parts.
    """
    whole = blocks * packing.whole_products
    parts = blocks * packing.slots - whole
    rounds, first = divmod(whole, multiprocessors)
    most = rounds * packing.padded_reduction + ceil_div(parts, multiprocessors) * packing.part_reduction
    if first == 0:
        return most
    behind = ceil_div(max(0, parts - (multiprocessors - first)), multiprocessors)
    return max(most, (rounds + 1) * packing.padded_reduction + behind * packing.part_reduction)


def _staged_seconds(packing: ProductPacking, most: int, reduction: int, multiplied: float) -> float:
    """Seconds of products that take `multiplied` where stages are there, and wait for these.

    The fullest multiprocessor has `most` workgroups, or one that has so many positions of the reduction.
    """
    schedule = packing.schedule
    latency = STAGE_LATENCIES.get(type(schedule))
    if latency is None or not isinstance(schedule, StagedSchedule):
        return multiplied
    if packing.whole_products == 0:
        reduction = ceil_div(most, schedule.resident_workgroups) * packing.part_reduction
    stages = reduction // schedule.block_reduction
    return latency + max(multiplied, stages * latency / schedule.stages)


def _finds_scales(packing: ProductPacking) -> bool:
    """Whether threads find the scales of their operands before they write them."""
    return isinstance(packing.schedule, MatrixSchedule) and packing.schedule.scales_operands


def full_threads(machine: GpuMachine) -> int:
    """Threads of products that fill a multiprocessor."""
    family = amd_family(machine.name)
    return _FULL_THREADS if family is None or family.is_cdna else _FULL_THREADS_OF_RDNA


def columns_seconds(
    shape: ConvolutionShape, schedule: ColumnsSchedule, machine: GpuMachine
) -> Mapping[str, float]:
    """Seconds of the one kernel of a depthwise or grouped convolution, and of its launch.

        seconds = latency + rows of taps * latency of one
                  + root of the sum of squares of bytes / bandwidth of memory
                    and cycles of all threads / clock rate / part that is reached / busy part

    where rows ahead leave a latency of all filters and less of each row, and keep more loads under
    way. A thread's cycles are those of its loads from the first cache or of its multiply-adds, whichever are
    more, and of indices where sizes are known only at run time. Multiprocessors with few threads are busy for
    a part of the time.
    """
    moved = (shape.images * (shape.image_bytes + shape.result_bytes) + shape.filter_bytes) / (
        machine.memory_bandwidth
    )
    *rows, taps = shape.kernel_size
    elements = elements_read(shape.decomposition, schedule.columns)
    # Quads of weights that a quad of the image is multiplied by, and quads of the image for one of outputs.
    weights, quads = (1, 1) if is_depthwise(shape) else (QUAD, ceil_div(shape.group_inputs, QUAD))
    loads, multiplied = len(elements) + taps * weights, schedule.columns * taps * weights
    cycles = prod(rows) * quads * max(CYCLES_OF_LOAD * loads, multiplied)
    if shape.unknown_sizes:
        cycles += INDEX_CYCLES
    threads = column_threads(shape, schedule)
    is_ahead = isinstance(schedule, GpuDepthwiseSchedule) and schedule.rows_ahead is not None
    rate, busy_threads = (AHEAD_RATE, BUSY_THREADS_AHEAD) if is_ahead else (COLUMNS_RATE, BUSY_THREADS)
    busy = min(1.0, threads / (busy_threads * machine.multiprocessors))
    computed = threads * cycles * 2 * QUAD / (rate * machine.flops * busy)
    latency = OUTPUT_LATENCY + prod(rows) * quads * (AHEAD_ROW_LATENCY if is_ahead else TAP_ROW_LATENCY)
    latency += SHARED_FILTER_LATENCY if is_ahead else 0.0
    return {schedule.stage: latency + hypot(moved, computed), "launch": launch_seconds(machine)}


def column_threads(shape: ConvolutionShape, schedule: ColumnsSchedule) -> int:
    """Threads of all workgroups that compute something."""
    *outer, width = shape.output_size
    columns = shape.images * prod(outer) * ceil_div(width, schedule.columns)
    return columns * ceil_div(shape.output_channels, QUAD)


def launch_seconds(machine: GpuMachine) -> float:
    """From the end of one kernel to the start of the next."""
    return max(0.0, machine.launch_seconds - MIN_KERNEL_SECONDS)


def clock_rate(machine: GpuMachine) -> float:
    """Cycles of a multiprocessor in a second, in each of which its schedulers start a warp's multiply-add."""
    return machine.flops / (machine.multiprocessors * 2 * SCHEDULERS * WARP_THREADS)


def _kept(shape: ConvolutionShape, splits: bool) -> float:
    """The part of its speed that an input transform keeps where it keeps a tile in registers at once."""
    return SPILLED_EFFICIENCY if splits and shape.transform_size * QUAD > KEPT_REGISTERS else 1.0


def moved_seconds(outside: int, between: int, machine: GpuMachine) -> float:
    """Seconds of moving the bytes `outside` of the convolution, and those `between` two of its kernels."""
    return outside / machine.memory_bandwidth + between / machine.bandwidth(outside + between)
