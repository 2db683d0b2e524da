"""What products of a few rows and a matrix of half precision take.

An H200 took 49 us for one row by 25088 x 4096, 66 for eight, where 52 are predicted for either.
"""

from __future__ import annotations

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.gpu.device.memory import QUAD_BYTES
from iree.winograd.pipelines.gpu.packing.gemv import GemvPacking
from iree.winograd.pipelines.gpu.schedules.gemv import GEMV_POSITIONS
from iree.winograd.pipelines.machines.model import GpuMachine

from .cost_model import PRODUCT_LATENCY

LOAD_LATENCY = 1e-6
"""Seconds from the begin of a load to its end where memory is busy."""
MULTIPLY_ADDS = 0.65
"""Of the peak rate. Eight rows took an H200 as long as 0.44 of it would; what else held them isn't known."""


def gemv_seconds(packing: GemvPacking, machine: GpuMachine) -> float:
    """Seconds of the kernel that multiplies.

        products = latency + balance * max(matrix / bandwidth, operations / rate)

    with the bandwidth of where the matrix fits, or that of the loads that are under way, and the balance
    that of the fullest multiprocessor to all of them. An element takes a conversion, and a multiply-add for
    each row.
    """
    schedule = packing.schedule
    blocks = packing.padded_filters // schedule.block_columns * schedule.reduction_parts
    most = ceil_div(blocks, machine.multiprocessors)
    balance = most * machine.multiprocessors / blocks
    elements = packing.padded_filters * packing.padded_reduction
    matrix = packing.operand_bytes * elements
    resident = min(most, schedule.resident_threads // schedule.threads)
    under_way = resident * schedule.threads * GEMV_POSITIONS * QUAD_BYTES * machine.multiprocessors
    bandwidth = min(machine.bandwidth(matrix), under_way / LOAD_LATENCY)
    operations = 2 * (1 + schedule.block_rows) * elements
    return PRODUCT_LATENCY + balance * max(matrix / bandwidth, operations / (MULTIPLY_ADDS * machine.flops))
