"""Schedules of depthwise and grouped convolutions on a GPU, among which one is chosen."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.gpu.schedules.columns import (
    RESIDENT_THREADS_AHEAD,
    GpuDepthwiseSchedule,
    GroupedSchedule,
    elements_read,
)
from iree.winograd.pipelines.gpu.schedules.fit import fits, kernel_misfit
from iree.winograd.pipelines.machines.model import GpuMachine
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .cost_model import column_threads
from .representative import representative

_COLUMN_SIZES = [
    (threads, quads, columns)
    for threads in (128, 64, 256)
    for quads in (16, 8, 32)
    for columns in (1, 2, 4, 7, 8)
]
"""Threads, quads and columns. Of those that are predicted to be equally fast the first is taken."""
DEPTHWISE_SCHEDULES = tuple(GpuDepthwiseSchedule(*each) for each in _COLUMN_SIZES)
AHEAD_SCHEDULES = tuple(GpuDepthwiseSchedule(128, 16, columns, rows_ahead=2) for columns in (1, 2))
"""For few threads, which wait for their loads more than they compute."""
MAX_ROWS_AHEAD, MAX_ELEMENTS_AHEAD = 7, 9
"""Rows of taps, and what one reads of neighbouring outputs: all of it is straight code."""
_FEW_ROWS = 3
GROUPED_SCHEDULES = tuple(GroupedSchedule(*each) for each in _COLUMN_SIZES)


def depthwise_schedules(
    shape: ConvolutionShape, target: GpuTarget, machine: GpuMachine
) -> Iterator[GpuDepthwiseSchedule]:
    """Those of depthwise convolutions that keep the target's limits."""
    yield from (each for each in DEPTHWISE_SCHEDULES if fits(each, target, shape.element_types))
    yield from _ahead(shape, target, machine)


def grouped_schedules(shape: ConvolutionShape, target: GpuTarget) -> Iterator[GroupedSchedule]:
    """Those of grouped convolutions that fit the shape and the target."""
    yield from (each for each in GROUPED_SCHEDULES if kernel_misfit(shape, target, each) is None)


def _ahead(shape: ConvolutionShape, target: GpuTarget, machine: GpuMachine) -> Iterator[GpuDepthwiseSchedule]:
    """Those that have rows of taps ahead, where all threads are resident at once.

    Of sizes known only at run time there is no room in registers for more than a column of large filters.
    """
    rows = prod(shape.kernel_size[:-1])
    for schedule in AHEAD_SCHEDULES:
        elements = len(elements_read(shape.decomposition, schedule.columns))
        if shape.unknown_sizes and schedule.columns > 1 and rows > _FEW_ROWS:
            continue
        is_short = 1 < rows <= MAX_ROWS_AHEAD and elements <= MAX_ELEMENTS_AHEAD
        threads = column_threads(representative(shape), schedule)
        is_small = threads <= RESIDENT_THREADS_AHEAD * machine.multiprocessors
        if is_short and is_small and kernel_misfit(shape, target, schedule) is None:
            yield schedule
