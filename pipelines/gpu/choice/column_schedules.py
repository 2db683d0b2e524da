"""Schedules of depthwise and grouped convolutions on a GPU, among which one is chosen."""

from __future__ import annotations

from collections.abc import Iterator
from math import log, prod

from iree.winograd.passes.match.convolutions.element_types import element_bytes
from iree.winograd.passes.match.convolutions.problem import OTHER_SIZES
from iree.winograd.pipelines.emission.numbers.f32 import F32
from iree.winograd.pipelines.gpu.device.matrix_unit import WARP_THREADS
from iree.winograd.pipelines.gpu.device.memory import QUAD
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.gpu.schedules.columns import (
    RESIDENT_THREADS_AHEAD,
    DepthwiseBlockSchedule,
    DepthwiseStripSchedule,
    GpuDepthwiseSchedule,
    GroupedBlockSchedule,
    GroupedSchedule,
    ThreadOutputsSchedule,
    elements_read,
    has_few_taps,
)
from iree.winograd.pipelines.gpu.schedules.fit import fits, is_walkable, kernel_misfit
from iree.winograd.pipelines.machines.model import GpuMachine
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .block_cost import block_threads, strip_threads
from .cost_model import column_threads
from .grouped_ring_schedules import grouped_ring_schedules
from .representative import representative
from .toeplitz_schedules import toeplitz_schedules

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
TALL_BLOCK = DepthwiseBlockSchedule(128, 7, 2, resident=512)
LEAST_OF_WAVE, MOST_OF_WAVE = 0.75, 1.2
"""Of threads that are resident at once. Tall blocks multiply what they load most often: 14 x 14 x 480 of
3 x 3 taps in half precision, 0.8 of a wave, took an H200 4.1 us by them, by other blocks 4.5, 14 x 14 x 672,
1.1 waves, 5.4 and 5.7."""
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
GROUPED_BLOCKS = (GroupedBlockSchedule(128, 2, 4, 384), GroupedBlockSchedule(128, 2, 2, 512))
MAX_GROUPED_MULTIPLY_ADDS = 2500
NARROW_BLOCKS, OPEN_PAIRS = ((1, 7, 7), (2, 4, 4), (2, 2, 4)), (2, 2, 2)
"""Channels, rows and columns."""
MAX_NARROW_MULTIPLY_ADDS, MAX_PAIRED_CHANNELS, MIN_NARROW_THREADS = 2500, 16, 320
MIN_STRIDED_OUTPUTS = 28 * 28
"""Of an image in half precision: fewer weren't measured. 32 x 56 x 56 x 72 of 5 x 5 taps and stride 2 took an
H200 6.4 us by pairs of channels, 7.3 by quads, x 144 13.5 and 13.9."""
_FEW_OF_MANY_TAPS = 25
STRIPS, HALF_STRIPS = ((2, 4), (1, 4)), ((1, 7),)
"""Channels and columns, of which the first are taken that there are registers for. Of 14 x 14 x 672 in half
precision and 5 x 5 taps an H200 took 7.9 us by seven columns, 8.8 by four and 9.2 by blocks."""
STRIP_THREADS, STRIP_RESIDENT = 128, 384
"""Of a workgroup, about, and of a multiprocessor."""
MAX_STRIP_REGISTERS = 128
"""Of a thread, for taps, sums and rows of the image."""
MAX_STRIP_ROWS, MAX_STRIP_BYTES = 14, 20e6
"""Of an image, and of all images: in f32 an H200 took 10.3 us for 32 x 28 x 28 x 120, by blocks 9.1, and 16.5
for 28 x 28 x 192 and 7 x 7 taps, by blocks 15.8; in half precision 8.0 and 6.9 for the former. More bytes
weren't measured."""
WORKGROUP_THREADS = 256
"""About as many."""
LEAST_LANES, MOST_LANES = 8, 64
MIN_STRIP_THREADS = 100
"""Of a multiprocessor."""
GROUPED_SCHEDULES = tuple(GroupedSchedule(*each) for each in _COLUMN_SIZES)


def depthwise_schedules(
    shape: ConvolutionShape, target: GpuTarget, machine: GpuMachine
) -> Iterator[ThreadOutputsSchedule]:
    """Those of depthwise convolutions that keep the target's limits."""
    yield from _blocks(shape, target, machine)
    yield from _narrow_blocks(shape, target, machine)
    yield from _strips(shape, target, machine)
    yield from toeplitz_schedules(shape, target, machine)
    yield from (each for each in DEPTHWISE_SCHEDULES if fits(each, target, shape.element_types))
    yield from _ahead(shape, target, machine)


def grouped_schedules(
    shape: ConvolutionShape, target: GpuTarget, machine: GpuMachine
) -> Iterator[ThreadOutputsSchedule]:
    """Those of grouped convolutions that fit the shape and the target."""
    for schedule in GROUPED_BLOCKS if target.takes_ptx and not shape.unknown_sizes else ():
        if kernel_misfit(shape, target, schedule) is not None:
            continue
        multiply_adds = QUAD * prod(shape.kernel_size) * shape.group_inputs * schedule.rows * schedule.columns
        is_busy = block_threads(shape, schedule) >= MIN_NARROW_THREADS * machine.multiprocessors
        if is_busy and multiply_adds <= MAX_GROUPED_MULTIPLY_ADDS:
            yield schedule
    yield from grouped_ring_schedules(shape, target, machine)
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
    if is_few and _has_one_wave(shape, TALL_BLOCK, machine):
        yield TALL_BLOCK
        return
    for schedule in BLOCKS_OF_FEW_TAPS if is_few else BLOCKS_OF_MANY_TAPS:
        if kernel_misfit(shape, target, schedule) is not None:
            continue
        multiply_adds = QUAD * prod(shape.kernel_size) * schedule.rows * schedule.columns
        is_short = multiply_adds <= MAX_BLOCK_MULTIPLY_ADDS
        threads = block_threads(representative(largest), schedule)
        is_busy = threads >= MIN_BLOCK_THREADS * machine.multiprocessors
        if is_short and is_busy and _kept_quads(shape, schedule) <= _MAX_QUADS[is_few]:
            yield schedule


def _has_one_wave(shape: ConvolutionShape, schedule: DepthwiseBlockSchedule, machine: GpuMachine) -> bool:
    """Whether an image of half precision and known sizes has whole blocks, all of which are resident about
    once."""
    if _is_f32(shape) or shape.unknown_sizes or shape.decomposition.step != (1, 1):
        return False
    waves = block_threads(shape, schedule) / (schedule.resident * machine.multiprocessors)
    return shape.output_size[0] % schedule.rows == 0 and LEAST_OF_WAVE <= waves <= MOST_OF_WAVE


def _narrow_blocks(
    shape: ConvolutionShape, target: GpuTarget, machine: GpuMachine
) -> Iterator[DepthwiseBlockSchedule]:
    """Those of blocks of one or two channels, for many threads."""
    if not target.takes_ptx:
        return
    if shape.unknown_sizes:
        yield from _strided_pairs(shape, target, machine)
        return
    is_few = has_few_taps(shape.decomposition)
    for channels, rows, columns in NARROW_BLOCKS:
        lanes = _lanes(shape.output_channels, channels)
        multiply_adds = channels * prod(shape.kernel_size) * rows * columns
        if lanes is None or multiply_adds > MAX_NARROW_MULTIPLY_ADDS:
            continue
        if not (_pairs_pay(shape) if channels == 2 else not is_few):
            continue
        is_small = (
            prod(shape.kernel_size) > _FEW_OF_MANY_TAPS and prod(shape.output_size) <= MIN_BLOCK_OUTPUTS
        )
        together, resident = (STRIP_THREADS, STRIP_RESIDENT) if is_small else (WORKGROUP_THREADS, 512)
        threads = lanes * max(1, together // lanes)
        schedule = DepthwiseBlockSchedule(threads, rows, columns, resident, channels, lanes)
        is_busy = (
            block_threads(representative(shape), schedule) >= MIN_NARROW_THREADS * machine.multiprocessors
        )
        if is_busy and kernel_misfit(shape, target, schedule) is None:
            yield schedule


def _strided_pairs(
    shape: ConvolutionShape, target: GpuTarget, machine: GpuMachine
) -> Iterator[DepthwiseBlockSchedule]:
    """The one of blocks of pairs of channels of many taps and strided images of unknown sizes.

    Twice as many threads wait for loads with a condition: of 5 x 5 taps 192 x 160 x 64 took an H200 3.7 us
    where quads took 5.0, but 96 x 80 x 96 without strides 5.2 where they took 3.9.
    """
    lanes = _lanes(shape.output_channels, OPEN_PAIRS[0])
    if lanes is None or has_few_taps(shape.decomposition) or 1 in shape.decomposition.step:
        return
    channels, rows, columns = OPEN_PAIRS
    threads = lanes * max(1, WORKGROUP_THREADS // lanes)
    schedule = DepthwiseBlockSchedule(threads, rows, columns, 512, channels, lanes)
    largest = representative(shape.resized(max(OTHER_SIZES)))
    is_busy = block_threads(largest, schedule) >= MIN_NARROW_THREADS * machine.multiprocessors
    if is_busy and kernel_misfit(shape, target, schedule) is None:
        yield schedule


def _pairs_pay(shape: ConvolutionShape) -> bool:
    """Whether blocks of pairs of channels were faster than those of quads: of few channels, or of no whole
    quads, and of many taps those of f32 or strided."""
    if has_few_taps(shape.decomposition):
        return shape.output_channels % QUAD != 0 or shape.output_channels <= MAX_PAIRED_CHANNELS
    is_strided = 1 not in shape.decomposition.step and prod(shape.output_size) >= MIN_STRIDED_OUTPUTS
    return _is_f32(shape) or is_strided


def _is_f32(shape: ConvolutionShape) -> bool:
    # What an image has is known to be of half precision before it is stored so.
    return shape.exact_type is None and element_bytes(shape.element_types.input) == F32.bytes


def _strips(
    shape: ConvolutionShape, target: GpuTarget, machine: GpuMachine
) -> Iterator[DepthwiseStripSchedule]:
    """Those of strips of many taps, where there are threads enough, registers for all taps, and images small
    enough to lie in caches; of half precision for whole strips of not most taps."""
    if not target.takes_ptx or not is_walkable(shape):
        return
    strips = STRIPS if _is_f32(shape) else HALF_STRIPS
    if has_few_taps(shape.decomposition) or shape.input_size[0] > MAX_STRIP_ROWS:
        return
    if not _is_f32(shape) and prod(shape.kernel_size) > _FEW_OF_MANY_TAPS:
        return
    if shape.images * shape.image_bytes > MAX_STRIP_BYTES:
        return
    rows, across = shape.kernel_size
    for channels, columns in strips:
        if not _is_f32(shape) and shape.output_size[1] % columns:
            continue
        lanes = _lanes(shape.output_channels, channels)
        kept = channels * (rows * across + rows * columns + 2 * (columns + across - 1))
        if lanes is None or kept > MAX_STRIP_REGISTERS:
            continue
        threads = lanes * max(1, STRIP_THREADS // lanes)
        schedule = DepthwiseStripSchedule(threads, columns, STRIP_RESIDENT, channels, lanes)
        is_busy = strip_threads(shape, schedule) >= MIN_STRIP_THREADS * machine.multiprocessors
        if is_busy and kernel_misfit(shape, target, schedule) is None:
            yield schedule
            return


def _lanes(outputs: int, channels: int) -> int | None:
    """Threads that take neighbouring channels, so many each: those of whole lines, or about as many."""
    if outputs % channels:
        return None
    divisors = (each for each in range(LEAST_LANES, MOST_LANES + 1) if outputs // channels % each == 0)
    return min(divisors, key=lambda each: abs(log(each / WARP_THREADS)), default=None)


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
