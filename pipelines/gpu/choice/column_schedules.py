"""Schedules of depthwise and grouped convolutions on a GPU, among which one is chosen."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from iree.winograd.passes.match.problem import OTHER_SIZES
from iree.winograd.pipelines.gpu.device.memory import QUAD
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.gpu.schedules.columns import (
    RESIDENT_THREADS_AHEAD,
    DepthwiseBlockSchedule,
    GpuDepthwiseSchedule,
    GroupedSchedule,
    elements_read,
    has_few_taps,
)
from iree.winograd.pipelines.gpu.schedules.fit import fits, kernel_misfit
from iree.winograd.pipelines.machines.model import GpuMachine
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .cost_model import column_threads
from .depthwise_block_cost import block_threads
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
BLOCKS_OF_FEW_TAPS = tuple(
    DepthwiseBlockSchedule(128, *each, resident=512) for each in ((2, 2), (2, 4), (4, 2), (4, 4), (7, 2))
)
BLOCKS_OF_MANY_TAPS = tuple(
    DepthwiseBlockSchedule(128, *each, resident=384) for each in ((2, 2), (2, 4), (4, 2), (4, 4), (2, 7))
)
"""For many threads. More taps take more registers, of which assemblers spill some where 512 are resident."""
MAX_BLOCK_MULTIPLY_ADDS = 2000
"""Of a thread: all of them are straight code."""
MIN_BLOCK_OUTPUTS, MIN_BLOCK_THREADS = 14 * 14, 20
"""Of an image, and of a multiprocessor: fewer were not measured."""
_MAX_QUADS = {True: 32, False: 50}
"""That threads keep of few taps and of many: more of them were spilled."""
MAX_ROWS_AHEAD, MAX_ELEMENTS_AHEAD = 7, 9
"""Rows of taps, and what one reads of neighbouring outputs: all of it is straight code."""
_FEW_ROWS = 3
GROUPED_SCHEDULES = tuple(GroupedSchedule(*each) for each in _COLUMN_SIZES)


def depthwise_schedules(
    shape: ConvolutionShape, target: GpuTarget, machine: GpuMachine
) -> Iterator[GpuDepthwiseSchedule | DepthwiseBlockSchedule]:
    """Those of depthwise convolutions that keep the target's limits."""
    yield from _blocks(shape, target, machine)
    yield from (each for each in DEPTHWISE_SCHEDULES if fits(each, target, shape.element_types))
    yield from _ahead(shape, target, machine)


def grouped_schedules(shape: ConvolutionShape, target: GpuTarget) -> Iterator[GroupedSchedule]:
    """Those of grouped convolutions that fit the shape and the target."""
    yield from (each for each in GROUPED_SCHEDULES if kernel_misfit(shape, target, each) is None)


def _blocks(
    shape: ConvolutionShape, target: GpuTarget, machine: GpuMachine
) -> Iterator[DepthwiseBlockSchedule]:
    """Those of blocks of outputs.

    Nobody measured them on other GPUs than NVIDIA's, where channels are no whole quads, and of few threads.
    Of sizes known only at run time the largest that are likely count.
    """
    is_whole = shape.output_channels % QUAD == 0
    largest = shape.resized(max(OTHER_SIZES))
    if not target.takes_ptx or not is_whole or prod(largest.output_size) < MIN_BLOCK_OUTPUTS:
        return
    is_few = has_few_taps(shape.decomposition)
    for schedule in BLOCKS_OF_FEW_TAPS if is_few else BLOCKS_OF_MANY_TAPS:
        if kernel_misfit(shape, target, schedule) is not None:
            continue
        multiply_adds = QUAD * prod(shape.kernel_size) * schedule.rows * schedule.columns
        is_short = multiply_adds <= MAX_BLOCK_MULTIPLY_ADDS
        threads = block_threads(representative(largest), schedule)
        is_busy = threads >= MIN_BLOCK_THREADS * machine.multiprocessors
        if is_short and is_busy and _kept_quads(shape, schedule) <= _MAX_QUADS[is_few]:
            yield schedule


def _kept_quads(shape: ConvolutionShape, schedule: DepthwiseBlockSchedule) -> int:
    """Sums of a thread's block, and all taps with a row of the image, or rows that a row of taps reads."""
    decomposition = shape.decomposition
    row = len(elements_read(decomposition, schedule.columns))
    rows = (schedule.rows - 1) * decomposition.step[0] + 1
    read = prod(shape.kernel_size) + row if has_few_taps(decomposition) else rows * row
    return schedule.rows * schedule.columns + read


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
