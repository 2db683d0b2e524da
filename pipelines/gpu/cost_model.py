"""What the kernels for a GPU take by their schedule, from counts of operations, bytes and workgroups."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod, sqrt

from iree.winograd.pipelines.convolution import ConvolutionShape
from iree.winograd.pipelines.selection.machine import GpuMachine

from .packing import Packing
from .schedules import DYNAMIC_BATCH, RESIDENT_THREADS, GemmSchedule

COPY_EFFICIENCY = 0.85
"""The part of a copy's bandwidth that transforms reach."""
TRANSFORM_LATENCY = 1e-6
"""Seconds that a transform takes whatever its size, beside those for each element of a tile: a thread
transforms a tile on its own."""
ELEMENT_LATENCY = 30e-9
GATHER_RATE = 1.3e9
"""Elements per second and multiprocessor that an input transform loads one by one, where channels are no
quads."""
PRODUCT_LATENCY = 1e-6
"""Seconds that products take beside those of their operations: until the first block is loaded."""
PRODUCT_RATES = {(8, 8): 0.57, (8, 4): 0.41, (4, 4): 0.36}
"""The part of the peak rate that full multiprocessors reach, by the rows and columns of a thread."""


def gemm_seconds(shape: ConvolutionShape, schedule: GemmSchedule, machine: GpuMachine) -> Mapping[str, float]:
    """Seconds of the kernels of a convolution: one for a direct one, or two in parts, else three.

        products = latency + blocks on the fullest multiprocessor * operations / (rate * sqrt(occupancy))
        input    = bytes of the image and of its tiles / (0.85 * bandwidth of where they fit)
        output   = bytes of the products and of the result / (0.85 * bandwidth of where they fit)

    with the padding to whole quads and blocks. Transforms take no less than their latency, input transforms
    no less than it takes to gather channels that are no whole quads; products no less than their bytes.
    """
    packing = Packing(shape, schedule)
    parts, reduction, columns = schedule.reduction_parts, packing.padded_reduction, packing.padded_filters
    batch = shape.batch or DYNAMIC_BATCH
    row_blocks = -(-batch * prod(shape.tiles_per_image) // schedule.block_rows)
    rows = row_blocks * schedule.block_rows
    gemms = packing.products
    workgroups = row_blocks * columns // schedule.block_columns * gemms * parts
    most = -(-workgroups // machine.multiprocessors)
    occupancy = sqrt(min(1.0, most * schedule.threads / RESIDENT_THREADS))
    rate = PRODUCT_RATES[schedule.thread_rows, schedule.thread_columns] * machine.flops * occupancy
    operations = 2 * schedule.block_rows * schedule.block_columns * packing.part_reduction
    products = PRODUCT_LATENCY + most * operations * machine.multiprocessors / rate
    image = 4 * batch * prod(shape.input_size) * shape.input_channels
    result = 4 * batch * prod(shape.output_size) * shape.output_channels
    filters = 4 * gemms * reduction * columns
    is_direct = shape.transform_size == 1
    tiles = image if is_direct else 4 * gemms * rows * reduction
    sums = 4 * gemms * parts * rows * columns
    latency = TRANSFORM_LATENCY + ELEMENT_LATENCY * shape.transform_size
    gathered = 0 if packing.image_by_quads else gemms * rows * packing.reduction
    stages = {}
    if not is_direct:
        gathering = gathered / (GATHER_RATE * machine.multiprocessors)
        stages["input"] = max(_moved(image, tiles, machine), gathering, latency)
    written = result if is_direct and parts == 1 else sums
    stages["products"] = max(products, (filters + tiles + written) / machine.memory_bandwidth)
    if not is_direct or parts > 1:
        stages["output"] = max(_moved(result, sums, machine), latency)
    return stages | {"launch": len(stages) * machine.launch_seconds}


def _moved(outside: int, between: int, machine: GpuMachine) -> float:
    """Seconds of moving the bytes `outside` of the convolution, and those `between` two of its kernels."""
    bandwidth = machine.bandwidth(between)
    return (outside / machine.memory_bandwidth + between / bandwidth) / COPY_EFFICIENCY
