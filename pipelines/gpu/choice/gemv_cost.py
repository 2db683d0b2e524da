"""What products of a few rows and a matrix take.

Of half precision by multiply-adds an H200 took 49 us for one row by 25088 x 4096, 66 for eight, where 52 were
predicted for either. Eight rows are one product of its matrix units now.
"""

from __future__ import annotations

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.gpu.packing.gemv import GemvPacking
from iree.winograd.pipelines.machines.model import GpuMachine

from .cost_model import PRODUCT_LATENCY

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

    with the bandwidth of where the matrix fits, the rows that each block of columns reads, and the balance
    that of the fullest multiprocessor to all of them. The latency of products has that of the first loads.
    """
    schedule, shape = packing.schedule, packing.shape
    columns = packing.padded_filters // schedule.block_columns
    blocks = columns * schedule.reduction_parts
    most = ceil_div(blocks, machine.multiprocessors)
    balance = most * machine.multiprocessors / blocks
    elements = packing.padded_filters * packing.padded_reduction
    matrix, rows = packing.operand_bytes * elements, columns * shape.images * shape.image_bytes
    moving = max(matrix / machine.bandwidth(matrix), (matrix + rows) / machine.cache_bandwidth)
    operations = 0 if schedule.on_matrix_units else 2 * schedule.block_rows * elements
    resident = schedule.resident_threads // schedule.threads
    steps = packing.part_reduction // schedule.block_reduction
    latency = CACHED_LATENCY if matrix <= machine.cache_size else LOAD_LATENCY
    loading = (most / min(most, resident) * steps - 1) * latency
    return PRODUCT_LATENCY + max(
        balance * moving, balance * operations / (MULTIPLY_ADDS * machine.flops), loading
    )
