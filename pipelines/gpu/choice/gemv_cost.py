"""What products of a few rows and a matrix take.

An H200 took 50 us for one row of f16 by 25088 x 4096, 52 for eight, 1.9 and 2.5 for these by 1280 x 1280, and
1.5 to 2.5 for one of f32 by 368 to 2048 x 1000. Predictions of 28 such are 3% too long in the mean, 20%
off at most.
"""

from __future__ import annotations

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.gpu.packing.gemv import GemvPacking
from iree.winograd.pipelines.machines.model import GpuMachine

GEMV_LATENCY, ROW_LATENCY = 1.1e-6, 0.1e-6
"""Seconds beside those of what is read: until the first is loaded, and until sums are added; and for each row
of f32, whose sums threads exchange."""
LOAD_LATENCY, CACHED_LATENCY = 1e-6, 0.4e-6
"""Seconds from the begin of a load to its end where memory is busy, and where the cache has what is loaded:
one row of f16 by 192 x 1000 took an H200 3.0 us in three steps."""
MULTIPLY_ADDS = 0.65
"""Of the peak rate. Eight rows took an H200 as long as 0.44 of it would; what else held them isn't known."""


def gemv_seconds(packing: GemvPacking, machine: GpuMachine) -> float:
    """Seconds of the kernel that multiplies.

        products = latency + max(balance * matrix / bandwidth, balance * (matrix + rows) / the cache's,
                                 balance * operations / rate,
                                 (rounds of workgroups * their steps - 1) * latency of loads)

    with the bandwidth of where the matrix fits, which each block of rows reads again from the cache, the rows
    that each block of columns reads, and the balance that of the fullest multiprocessor to all of them. The
    latency of products has that of the first loads.
    """
    schedule, shape = packing.schedule, packing.shape
    columns = packing.padded_filters // schedule.block_columns
    assert shape.tiles is not None, "it suits no layer of unknown sizes"
    row_blocks = ceil_div(shape.tiles, schedule.block_rows)
    blocks = columns * row_blocks * schedule.reduction_parts
    most = ceil_div(blocks, machine.multiprocessors)
    balance = most * machine.multiprocessors / blocks
    elements = packing.padded_filters * packing.padded_reduction
    matrix, rows = packing.operand_bytes * elements, columns * shape.images * shape.image_bytes
    moving = max(matrix / machine.bandwidth(matrix), (row_blocks * matrix + rows) / machine.cache_bandwidth)
    operations = 0 if schedule.on_matrix_units else 2 * row_blocks * schedule.block_rows * elements
    resident = schedule.resident_threads // schedule.threads
    steps = packing.part_reduction // schedule.block_reduction
    latency = CACHED_LATENCY if matrix <= machine.cache_size else LOAD_LATENCY
    loading = (most / min(most, resident) * steps - 1) * latency
    latency_of_rows = 0.0 if schedule.on_matrix_units else (schedule.block_rows - 1) * ROW_LATENCY
    return (
        GEMV_LATENCY
        + latency_of_rows
        + max(balance * moving, balance * operations / (MULTIPLY_ADDS * machine.flops), loading)
    )
