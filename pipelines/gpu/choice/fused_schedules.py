"""Schedules of single kernels of a convolution on a GPU, among which one is chosen."""

from __future__ import annotations

from collections.abc import Iterator

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.gpu.schedules.fit import kernel_misfit
from iree.winograd.pipelines.gpu.schedules.fused import FusedSchedule
from iree.winograd.pipelines.machines.model import GpuMachine
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .gemm_schedules import MANY_SUMS, UNROLLED_BLOCKS
from .rates import fused_rates


def fused_schedules(
    shape: ConvolutionShape, target: GpuTarget, machine: GpuMachine
) -> Iterator[FusedSchedule]:
    """Those that are measured on the machine or one like it, and fit the target."""
    for schedule in fused_rates(machine):
        blocks = len(shape.decomposition.views) * ceil_div(shape.group_inputs, schedule.block_reduction)
        # LLVM unrolls so short a loop, and spills a hundred registers.
        if target.orders_steps and blocks <= UNROLLED_BLOCKS and schedule.sums >= MANY_SUMS:
            continue
        if kernel_misfit(shape, target, schedule) is None:
            yield schedule
