"""Schedules of products on the matrix units of a GPU, among which one is chosen."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.gpu.schedules.fit import kernel_misfit
from iree.winograd.pipelines.gpu.schedules.matrix import ROUNDED_PRODUCTS, MatrixSchedule
from iree.winograd.pipelines.gpu.schedules.warpgroup import WarpgroupSchedule
from iree.winograd.pipelines.machines.model import GpuMachine
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .implicit_gemm_schedules import implicit_gemm_schedules
from .rounded_products import multiplying_bf16
from .streamed_schedules import streamed_schedules
from .warp_schedules import unrolls_stages, warp_schedules
from .warpgroup_schedules import (
    gathering_schedules,
    in_place_schedules,
    mapping_schedules,
    warpgroup_schedules,
)


def matrix_schedules(
    shape: ConvolutionShape, target: GpuTarget, machine: GpuMachine
) -> Iterator[MatrixSchedule]:
    """The schedules of products on matrix units that the target and its machine are for."""
    if machine.matrix_flops is None:
        return
    gathering, mapping = (
        [each for each in offered if kernel_misfit(shape, target, each) is None]
        for offered in (gathering_schedules(shape, machine), mapping_schedules(shape, machine))
    )
    in_place = in_place_schedules(mapping, gathering, shape, machine)
    candidates = (
        *(
            multiplying_bf16(each, shape)
            for each in chain(warp_schedules(machine), warpgroup_schedules(shape, machine))
            if not in_place or not _is_whole(each)
        ),
        *in_place,
        *implicit_gemm_schedules(shape, target, machine),
        *streamed_schedules(shape, target, machine),
    )
    yield from (
        each
        for each in candidates
        if kernel_misfit(shape, target, each) is None and not unrolls_stages(shape, each)
    )


def _is_whole(schedule: MatrixSchedule) -> bool:
    """Whether warpgroups sum whole products of rounded numbers, with a kernel before them."""
    is_rounded = isinstance(schedule, WarpgroupSchedule) and schedule.products == ROUNDED_PRODUCTS
    return is_rounded and schedule.reduction_parts == 1
