"""What depthwise and grouped kernels take whose threads compute blocks of outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import hypot, prod

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.passes.match.convolutions.element_types import element_bytes
from iree.winograd.pipelines.emission.numbers.f32 import F32
from iree.winograd.pipelines.gpu.device.memory import QUAD
from iree.winograd.pipelines.gpu.schedules.columns import (
    BlockSchedule,
    DepthwiseStripSchedule,
    elements_read,
    has_few_taps,
)
from iree.winograd.pipelines.machines.model import GpuMachine
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .cost_model import launch_seconds


@dataclass(frozen=True)
class _BlockRates:
    """Of blocks of few taps or of few threads, and of others."""

    load_instructions: float
    """Of what a thread loads of the image at once, where it may not exist."""
    weight_instructions: float
    output_instructions: float
    thread_instructions: float
    """Of a thread besides: where its block lies, and the epilogue."""
    instructions: float
    first_cache: float
    """The parts of the rates that threads reach."""
    occupancy: float
    """The power of the threads that are resident, over 512, that instructions are faster by."""
    edge_waves: float
    """Of workgroups that are resident at once: the part of a wave's time in which not all of them are."""
    begin_seconds: float


_FEW_TAPS = _BlockRates(1.0, 1.0, 1.0, 90.0, 0.77, 0.77, 0.0, 0.35, 0.0)
_MANY_TAPS = _BlockRates(4.3, 0.0, 9.3, 0.0, 0.83, 0.64, 0.43, 0.07, 0.2e-6)
OPEN_INSTRUCTIONS = 24
"""Of each load where sizes are known only at run time: whether the image has the pixel."""
LONGEST_OPEN_WAVE_SECONDS = 1.5e-6
"""Of workgroups that are fewer than could be resident, where sizes are known only at run time: they wait for
their loads, however many there could be. 5 x 5 taps of stride two from 192 x 160 x 64 took an H200 5.1 us,
where 6.0 followed from a wave of all."""
CODE_SECONDS = 1.9e-9
"""Until an instruction is there, of straight code that other kernels have run since: less where there are
more workgroups than are resident at once, which find it."""
MANY_THREADS = 320
"""Of a multiprocessor: they wait for other things meanwhile."""
_CACHE_BYTES = 128
"""Of a first cache in a cycle, in which as many multiply-adds are started as it has lanes."""
_LANES = 128
_LEAST_BYTES = 4
"""Of a lane, which fewer take as long as."""
STRIP_RATE = 0.62
"""The part of the rate of instructions that threads reach which walk down strips."""
ROW_INSTRUCTIONS = 12
"""Of such a thread for a row, beside those of what it loads, multiplies and stores."""


def block_seconds(
    shape: ConvolutionShape, schedule: BlockSchedule, machine: GpuMachine
) -> Mapping[str, float]:
    """Seconds of the one kernel, and of its launch.

        seconds = begin + (1 + edge / waves of resident workgroups)
                  * root of the sum of squares of bytes / bandwidth of memory
                    and of all threads' instructions and bytes of the first cache by their rates

    Before it code has to be there, which is longer by the conditions of loads where sizes are known only at
    run time; a wave of few workgroups takes no longer there than they wait for loads. Rates are fitted to 46
    kernels of 13 layers on an H200 that have few taps, and to 210 of many.
    """
    threads = block_threads(shape, schedule)
    is_busy = threads >= MANY_THREADS * machine.multiprocessors
    rates = _MANY_TAPS if is_busy and not has_few_taps(shape.decomposition) else _FEW_TAPS
    blocks = (schedule.rows, schedule.columns)
    read = prod(len(elements_read(shape.decomposition, each, d)) for d, each in enumerate(blocks))
    taps, outputs, channels = prod(shape.kernel_size) * shape.group_inputs, prod(blocks), schedule.channels
    read *= ceil_div(shape.group_inputs, QUAD)
    types = shape.element_types
    loaded, stored = (channels * element_bytes(each) for each in (types.input, types.result))
    # Conversions, of which two elements take one to be stored.
    converted = channels * read * (loaded < F32.bytes * channels)
    converted += ceil_div(channels, 2) * outputs * (stored < F32.bytes * channels)
    instructions = channels * taps * outputs + converted + rates.load_instructions * read
    instructions += rates.weight_instructions * taps + rates.output_instructions * outputs
    instructions += rates.thread_instructions
    loaded, stored = max(loaded, _LEAST_BYTES), max(stored, _LEAST_BYTES)
    cached = loaded * read + stored * outputs + F32.bytes * channels * taps
    resident = schedule.resident // schedule.threads * schedule.threads
    rate = min(1.0, rates.instructions * (resident / 512) ** rates.occupancy)
    cycles = hypot(instructions / (_LANES * rate), cached / (_CACHE_BYTES * rates.first_cache))
    computed = threads * cycles * 2 * _LANES / machine.flops
    moved = shape.images * (shape.image_bytes + shape.result_bytes) + shape.filter_bytes
    waves = threads / (resident * machine.multiprocessors)
    seconds = hypot(moved / machine.memory_bandwidth, computed)
    wave = seconds / waves
    if shape.unknown_sizes and waves < 1:
        wave = max(seconds, min(wave, LONGEST_OPEN_WAVE_SECONDS))
    seconds += rates.edge_waves * wave
    conditions = OPEN_INSTRUCTIONS * read if shape.unknown_sizes else 0
    if not is_busy:
        seconds += CODE_SECONDS * (instructions + conditions) / (1 + waves)
    return {schedule.stage: rates.begin_seconds + seconds, "launch": launch_seconds(machine)}


def block_threads(shape: ConvolutionShape, schedule: BlockSchedule) -> int:
    """Threads of all workgroups that compute something."""
    blocks = (schedule.rows, schedule.columns)
    across = prod(ceil_div(size, each) for size, each in zip(shape.output_size, blocks, strict=True))
    return shape.images * across * ceil_div(shape.output_channels, schedule.channels)


def strip_seconds(
    shape: ConvolutionShape, schedule: DepthwiseStripSchedule, machine: GpuMachine
) -> Mapping[str, float]:
    """Seconds of the one kernel whose threads walk down strips, and of its launch."""
    columns, channels = schedule.columns, schedule.channels
    read = len(elements_read(shape.decomposition, columns))
    instructions = channels * (prod(shape.kernel_size) + 2) * columns + 3 * read + ROW_INSTRUCTIONS
    threads = strip_threads(shape, schedule)
    computed = threads * shape.input_size[0] * instructions * 2 / (STRIP_RATE * machine.flops)
    moved = shape.images * (shape.image_bytes + shape.result_bytes) + shape.filter_bytes
    seconds = hypot(moved / machine.memory_bandwidth, computed)
    return {schedule.stage: seconds, "launch": launch_seconds(machine)}


def strip_threads(shape: ConvolutionShape, schedule: DepthwiseStripSchedule) -> int:
    """Threads of all workgroups that compute something."""
    across = ceil_div(shape.output_size[1], schedule.columns)
    return shape.images * across * ceil_div(shape.output_channels, schedule.channels)
