"""Schedules of groups of eight channels on matrix units, among which one is chosen."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.gpu.device.matrix_unit import WARP_THREADS
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.gpu.schedules.fit import has_groups_of_octets, kernel_misfit
from iree.winograd.pipelines.gpu.schedules.grouped_ring import GroupedRingSchedule, GroupedRingTiling
from iree.winograd.pipelines.gpu.schedules.image_ring import STRIP_ROWS
from iree.winograd.pipelines.machines.model import GpuMachine
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .toeplitz_schedules import MIN_WARPS

UNITS = 2
"""Groups of a workgroup: whole sectors of each pixel."""
MAX_OUTPUTS = 7 * 7
"""Of an image of which workgroups have so many groups."""
MAX_OUTPUTS_OF_ALL, GROUPS = 28 * 28, range(4, 8)
"""Of an image of which workgroups have a strip of all groups, and how many there may be. An H200 took 6.9 us
for 32 x 56 x 56 x 56, groups of 8 and stride 2, by blocks 8.3, but 12.3 for 112 x 112 x 24, by pixels that
stream 12.2."""
RESIDENT_THREADS, RESIDENT_THREADS_OF_ALL = 768, 896
GROUP_WARPS = 2
"""Of such a workgroup for each group."""


def grouped_ring_schedules(
    shape: ConvolutionShape, target: GpuTarget, machine: GpuMachine
) -> Iterator[GroupedRingSchedule]:
    """The one for images of half precision: small ones, a warp for each group, or of few groups."""
    if shape.exact_type is None or not has_groups_of_octets(shape):
        return
    rows = ceil_div(shape.output_size[0], STRIP_ROWS) * STRIP_ROWS
    outputs, type_ = prod(shape.output_size), shape.exact_type
    if outputs <= MAX_OUTPUTS:
        threads = UNITS * WARP_THREADS
        schedule = GroupedRingSchedule(threads, UNITS, 1, rows, RESIDENT_THREADS, multiplied_type=type_)
    elif outputs <= MAX_OUTPUTS_OF_ALL and shape.groups in GROUPS:
        threads, resident = shape.groups * GROUP_WARPS * WARP_THREADS, RESIDENT_THREADS_OF_ALL
        schedule = GroupedRingSchedule(threads, shape.groups, 1, STRIP_ROWS, resident, multiplied_type=type_)
    else:
        return
    tiling = GroupedRingTiling(shape, schedule)
    warps = shape.images // schedule.images * tiling.sections * tiling.groups * schedule.warps
    if kernel_misfit(shape, target, schedule) is None and warps >= MIN_WARPS * machine.multiprocessors:
        yield schedule
