"""What the GPU kernels reach by their schedules, as measured on an H200."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.pipelines.gpu.schedules.fused import FusedSchedule
from iree.winograd.pipelines.gpu.schedules.gemm import GemmSchedule
from iree.winograd.pipelines.gpu.schedules.matrix import MatrixSchedule
from iree.winograd.pipelines.gpu.schedules.split import CooperativeSchedule, WarpSchedule
from iree.winograd.pipelines.gpu.schedules.warpgroup import WarpgroupSchedule
from iree.winograd.pipelines.gpu.schedules.weight_gradient import (
    GpuWeightGradientSchedule,
    MatrixWeightGradientSchedule,
    MultiplyAddWeightGradientSchedule,
)
from iree.winograd.pipelines.machines.model import GpuMachine

PRODUCT_RATES = {(8, 8): 0.57, (8, 4): 0.44, (4, 4): 0.385}
"""The part of the peak rate that full multiprocessors reach, by the rows and columns of a thread."""


SPLIT_RATES = {(32, 32): 0.36, (16, 32): 0.29, (16, 16): 0.22}
"""The part of the peak rate of matrix units that they reach by warps, all products counted, by a warp's.

Those of AMD, which weren't measured, are taken to reach the same."""


COOPERATIVE_RATES = {(64, 64, None): 0.305, (64, 64, 128): 0.265, (48, 64, 64): 0.225, (32, 32, 64): 0.165}
"""The same through Vulkan, by a warp's rows and columns and by the large products in a sum.

Rounded numbers, which weren't measured, are taken to have the highest of the same warps."""


WARPGROUP_RATES = {(64, 3): 0.66, (128, 3): 0.88, (64, 1): 0.72, (128, 1): 0.70, (256, 1): 0.56}
"""The same by warpgroups, by the columns of a block and the products of a pair of numbers."""


GRADIENT_RATES = {(32, 32): 0.18, (16, 16): 0.11}
"""The same by warps, of products of TF32 for gradients of filters, by a warp's rows and columns."""


def product_rate(
    schedule: GemmSchedule | MatrixSchedule | GpuWeightGradientSchedule, machine: GpuMachine
) -> float:
    """Operations per second that a product by `schedule` reaches on full multiprocessors.

    Raises ValueError for one on matrix units where their rate isn't known.
    """
    if isinstance(schedule, MultiplyAddWeightGradientSchedule):
        schedule = schedule.product
    if isinstance(schedule, GemmSchedule):
        return PRODUCT_RATES[schedule.thread_rows, schedule.thread_columns] * machine.flops
    if machine.matrix_flops is None:
        raise ValueError(f"the rate of the matrix units of {machine.name} isn't known")
    return _matrix_rate(schedule) * machine.matrix_flops / schedule.matrix_products


def _matrix_rate(schedule: MatrixSchedule | GpuWeightGradientSchedule) -> float:
    """The part of the peak rate of matrix units that products by `schedule` reach, all counted."""
    if isinstance(schedule, WarpgroupSchedule):
        return WARPGROUP_RATES[schedule.block_columns, schedule.matrix_products]
    if isinstance(schedule, MatrixWeightGradientSchedule):
        return GRADIENT_RATES[schedule.warp_rows, schedule.warp_columns]
    assert isinstance(schedule, WarpSchedule)
    if isinstance(schedule, CooperativeSchedule):
        rows, columns = schedule.warp_rows, schedule.warp_columns
        if schedule.parts == 2:
            return COOPERATIVE_RATES[rows, columns, schedule.summed_block]
        return max(rate for sizes, rate in COOPERATIVE_RATES.items() if sizes[:2] == (rows, columns))
    return SPLIT_RATES[schedule.warp_rows, schedule.warp_columns]


@dataclass(frozen=True)
class FusedRate:
    """What a schedule of the fused kernel reaches on an H200."""

    peak_fraction: float
    """Of the peak rate, in the main loop."""
    edge_seconds: float
    """What a workgroup takes beside: until the first block is loaded, and after the last."""


FUSED_RATES = {
    FusedSchedule(16, 32, 64, 8, thread_products=2, buffers=2): FusedRate(0.61, 2.3e-6),
    FusedSchedule(24, 32, 32, 8, thread_products=1): FusedRate(0.44, 2.4e-6),
    # For small products: more workgroups.
    FusedSchedule(16, 16, 16, 8, 1, thread_tiles=4, thread_columns=4, buffers=2): FusedRate(0.26, 1.2e-6),
    # For at most 48 KiB of shared memory, as Vulkan has it, and measured there.
    FusedSchedule(16, 32, 32, 8, thread_products=1): FusedRate(0.44, 3.2e-6),
}
"""The schedules of the fused kernel that are worth it."""
