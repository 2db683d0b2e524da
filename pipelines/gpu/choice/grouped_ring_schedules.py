"""Schedules of groups of eight channels on matrix units, among which one is chosen."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.gpu.device.matrix_unit import MATRIX_ROWS, WARP_THREADS
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.gpu.schedules.fit import has_groups_of_octets, kernel_misfit
from iree.winograd.pipelines.gpu.schedules.grouped_ring import (
    TILES_TOGETHER,
    GroupedRingSchedule,
    GroupedRingTiling,
)
from iree.winograd.pipelines.machines.model import GpuMachine
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .toeplitz_schedules import MIN_WARPS

UNITS, UNIT_STRIP_ROWS, UNIT_RESIDENT = 2, 4, 768
"""Groups of a workgroup, whole sectors of each pixel, rows of its strips, and threads of a multiprocessor."""
MAX_OUTPUTS = 7 * 7
"""Of an image of which workgroups have so many groups."""
MAX_OUTPUTS_OF_ALL, GROUPS = 56 * 56, range(3, 8)
"""Of an image of which workgroups have all groups, and how many there may be. Each multiprocessor has one of
them: an H200 took 6.3 us for 32 x 56 x 56 x 56, groups of 8 and stride 2, by two of one strip of four rows
6.9, by blocks 8.3, and 10.9 for 112 x 112 x 24, by two of two strips 12.4, by pixels that stream 12.3."""
LEAST_RESIDENT = 448
"""Threads of a multiprocessor that they have registers for."""
SPARE_STRIPS = 2
"""Of their rings: by three 56 x 56 x 56 took 6.5 us and 112 x 112 x 24 11.5, by one 6.9 and 11.7."""
STRIPS = ((1, 1), (2, 4))
"""Rows of their strips and warps of a group, of which the first are taken that multiply once for each strip.
By strips of one row 112 x 112 x 24 took 13.6 us."""


def grouped_ring_schedules(
    shape: ConvolutionShape, target: GpuTarget, machine: GpuMachine
) -> Iterator[GroupedRingSchedule]:
    """The one for images of half precision: small ones, a warp for each group, or of few groups."""
    if shape.exact_type is None or not has_groups_of_octets(shape):
        return
    schedule = _schedule(shape, shape.exact_type, machine)
    if schedule is None:
        return
    tiling = GroupedRingTiling(shape, schedule)
    warps = shape.images // schedule.images * tiling.sections * tiling.groups * schedule.warps
    if kernel_misfit(shape, target, schedule) is None and warps >= MIN_WARPS * machine.multiprocessors:
        yield schedule


def _schedule(shape: ConvolutionShape, type_: str, machine: GpuMachine) -> GroupedRingSchedule | None:
    outputs = prod(shape.output_size)
    if outputs <= MAX_OUTPUTS:
        return _of_some_groups(shape, type_)
    if outputs <= MAX_OUTPUTS_OF_ALL and shape.groups in GROUPS:
        return _of_all_groups(shape, type_, machine)
    return None


def _of_some_groups(shape: ConvolutionShape, type_: str) -> GroupedRingSchedule:
    """A warp for each group, which goes down the whole image."""
    rows = ceil_div(shape.output_size[0], UNIT_STRIP_ROWS) * UNIT_STRIP_ROWS
    return GroupedRingSchedule(
        UNITS * WARP_THREADS,
        UNITS,
        1,
        rows,
        UNIT_RESIDENT,
        strip_rows=UNIT_STRIP_ROWS,
        multiplied_type=type_,
    )


def _of_all_groups(shape: ConvolutionShape, type_: str, machine: GpuMachine) -> GroupedRingSchedule | None:
    """Workgroups as many as multiprocessors, or fewer, where warps have enough outputs of a strip."""
    height, width = shape.output_size
    sections = max(1, machine.multiprocessors // shape.images)
    for strip_rows, warps in STRIPS:
        if ceil_div(strip_rows * width, MATRIX_ROWS * TILES_TOGETHER) != warps:
            continue
        rows = ceil_div(ceil_div(height, sections), strip_rows) * strip_rows
        threads = shape.groups * warps * WARP_THREADS
        return GroupedRingSchedule(
            threads,
            shape.groups,
            1,
            rows,
            max(threads, LEAST_RESIDENT),
            SPARE_STRIPS,
            strip_rows,
            multiplied_type=type_,
        )
    return None
