"""Schedules of groups of eight channels on matrix units, among which one is chosen."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.gpu.device.matrix_unit import WARP_THREADS
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.gpu.schedules.fit import has_groups_of_octets, kernel_misfit
from iree.winograd.pipelines.gpu.schedules.grouped_ring import GroupedRingSchedule
from iree.winograd.pipelines.gpu.schedules.image_ring import STRIP_ROWS
from iree.winograd.pipelines.machines.model import GpuMachine
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .toeplitz_schedules import MIN_WARPS

UNITS = 2
"""Groups of a workgroup: whole sectors of each pixel."""
MAX_OUTPUTS = 7 * 7
"""Of an image. An H200 took 13.1 us for 32 x 112 x 112 x 24, groups of 8 and stride 2, by a workgroup for all
groups, by pixels that stream 12.4; 5.9 and 6.2 for 14 x 14 x 152."""
RESIDENT_THREADS = 768


def grouped_ring_schedules(
    shape: ConvolutionShape, target: GpuTarget, machine: GpuMachine
) -> Iterator[GroupedRingSchedule]:
    """The one for small images of half precision, a warp for each group."""
    if shape.exact_type is None or not has_groups_of_octets(shape) or prod(shape.output_size) > MAX_OUTPUTS:
        return
    rows = ceil_div(shape.output_size[0], STRIP_ROWS) * STRIP_ROWS
    schedule = GroupedRingSchedule(
        UNITS * WARP_THREADS, UNITS, 1, rows, RESIDENT_THREADS, multiplied_type=shape.exact_type
    )
    warps = shape.images * ceil_div(shape.output_channels, schedule.unit_channels)
    if kernel_misfit(shape, target, schedule) is None and warps >= MIN_WARPS * machine.multiprocessors:
        yield schedule
