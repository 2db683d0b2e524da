"""What the kernels for a GPU take by their schedule, from counts of operations, bytes and workgroups."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod, sqrt

from iree.winograd.pipelines.convolution import ConvolutionShape
from iree.winograd.pipelines.machine import GpuMachine

from .schedules import DYNAMIC_BATCH, RESIDENT_THREADS, GemmSchedule

COPY_EFFICIENCY = 0.85
"""The part of a copy's bandwidth that transforms reach."""
TRANSFORM_LATENCY = 1e-6
"""Seconds that a transform takes whatever its size, beside those for each element of a tile: a thread
transforms a tile on its own."""
ELEMENT_LATENCY = 50e-9
PRODUCT_LATENCY = 2e-6
"""Seconds that products take whatever their size."""
PRODUCT_RATES = {(8, 8): 0.57, (8, 4): 0.41, (4, 4): 0.30}
"""The part of the peak rate that full multiprocessors reach, by the rows and columns of a thread."""


def gemm_seconds(shape: ConvolutionShape, schedule: GemmSchedule, machine: GpuMachine) -> Mapping[str, float]:
    """Seconds of the kernels of a convolution: one for a direct one, else three.

        products = blocks on the fullest multiprocessor * block operations / (rate * sqrt(occupancy))
        input    = bytes of the image and of its tiles / (0.85 * bandwidth of where they fit)
        output   = bytes of the products and of the result / (0.85 * bandwidth of where they fit)

    and none less than its latency.
    """
    batch = shape.batch or DYNAMIC_BATCH
    rows = batch * prod(shape.tiles_per_image)
    columns = shape.output_channels // shape.groups
    gemms = shape.transform_size * shape.groups
    workgroups = -(-rows // schedule.block_rows) * -(-columns // schedule.block_columns) * gemms
    most = -(-workgroups // machine.multiprocessors)
    occupancy = sqrt(min(1.0, most * schedule.threads / RESIDENT_THREADS))
    rate = PRODUCT_RATES[schedule.thread_rows, schedule.thread_columns] * machine.flops * occupancy
    operations = 2 * schedule.block_rows * schedule.block_columns * shape.reduction
    products = most * operations * machine.multiprocessors / rate
    image = 4 * batch * prod(shape.input_size) * shape.input_channels
    result = 4 * batch * prod(shape.output_size) * shape.output_channels
    filters = 4 * gemms * shape.reduction * columns
    if shape.transform_size == 1:
        moved = (image + filters + result) / machine.memory_bandwidth
        return {"products": max(products, moved, PRODUCT_LATENCY), "launch": machine.launch_seconds}
    row_blocks = -(-rows // schedule.block_rows) * schedule.block_rows
    tiles = 4 * gemms * row_blocks * shape.reduction
    sums = 4 * gemms * row_blocks * columns
    latency = TRANSFORM_LATENCY + ELEMENT_LATENCY * shape.transform_size
    moved = (filters + tiles + sums) / machine.memory_bandwidth
    return {
        "input": max(_moved(image, tiles, machine), latency),
        "products": max(products, moved, PRODUCT_LATENCY),
        "output": max(_moved(result, sums, machine), latency),
        "launch": 3 * machine.launch_seconds,
    }


def _moved(outside: int, between: int, machine: GpuMachine) -> float:
    """Seconds of moving the bytes `outside` of the convolution, and those `between` two of its kernels."""
    bandwidth = machine.bandwidth(between)
    return (outside / machine.memory_bandwidth + between / bandwidth) / COPY_EFFICIENCY
