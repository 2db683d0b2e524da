"""What the depthwise kernel takes whose threads compute blocks of outputs."""

from __future__ import annotations

from collections.abc import Mapping
from math import hypot, prod

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.passes.match.element_types import element_bytes
from iree.winograd.pipelines.gpu.device.memory import QUAD, QUAD_BYTES
from iree.winograd.pipelines.gpu.schedules.columns import DepthwiseBlockSchedule, elements_read
from iree.winograd.pipelines.machines.model import GpuMachine
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .cost_model import launch_seconds

THREAD_INSTRUCTIONS = 90
"""Of a thread beside those for each tap, element and output: where its block lies, and the epilogue."""
OPEN_INSTRUCTIONS = 12
"""Of each load where sizes are known only at run time: whether the image has the pixel."""
CODE_SECONDS = 1.9e-9
"""Until an instruction is there, of straight code that other kernels have run since: less where there are
more workgroups than are resident at once, which find it."""
BLOCK_RATE = 0.77
"""The part of the rates of instructions and of the first cache that threads reach together."""
EDGE_WAVES = 0.35
"""Of workgroups that are resident at once: the part of the time of a wave in which not all of them are."""
_CACHE_BYTES = 128
"""Of a first cache in a cycle, in which as many multiply-adds are started as it has lanes."""
_LANES = 128


def depthwise_block_seconds(
    shape: ConvolutionShape, schedule: DepthwiseBlockSchedule, machine: GpuMachine
) -> Mapping[str, float]:
    """Seconds of the one kernel, and of its launch.

        seconds = (1 + 0.35 / waves of resident workgroups)
                  * root of the sum of squares of bytes / bandwidth of memory
                    and of all threads' instructions and bytes of the first cache by their rates / 0.77

    By 46 kernels of 13 layers an H200 took 0.84 to 1.15 of that. Before it code has to be there, which is
    longer by the conditions of loads where sizes are known only at run time.
    """
    blocks = (schedule.rows, schedule.columns)
    read = prod(len(elements_read(shape.decomposition, each, d)) for d, each in enumerate(blocks))
    taps, outputs = prod(shape.kernel_size), prod(blocks)
    types = shape.element_types
    loaded, stored = (QUAD * element_bytes(each) for each in (types.input, types.result))
    # Conversions, of which two elements take one to be stored.
    converted = QUAD * read * (loaded < QUAD_BYTES) + QUAD // 2 * outputs * (stored < QUAD_BYTES)
    instructions = QUAD * taps * outputs + read + taps + outputs + converted + THREAD_INSTRUCTIONS
    cached = loaded * read + stored * outputs + QUAD_BYTES * taps
    cycles = hypot(instructions / _LANES, cached / _CACHE_BYTES)
    threads = block_threads(shape, schedule)
    computed = threads * cycles * 2 * _LANES / (BLOCK_RATE * machine.flops)
    moved = shape.images * (shape.image_bytes + shape.result_bytes) + shape.filter_bytes
    waves = threads / (schedule.resident_threads * machine.multiprocessors)
    seconds = (1 + EDGE_WAVES / waves) * hypot(moved / machine.memory_bandwidth, computed)
    conditions = OPEN_INSTRUCTIONS * read if shape.unknown_sizes else 0
    seconds += CODE_SECONDS * (instructions + conditions) / (1 + waves)
    return {schedule.stage: seconds, "launch": launch_seconds(machine)}


def block_threads(shape: ConvolutionShape, schedule: DepthwiseBlockSchedule) -> int:
    """Threads of all workgroups that compute something."""
    blocks = (schedule.rows, schedule.columns)
    across = prod(ceil_div(size, each) for size, each in zip(shape.output_size, blocks, strict=True))
    return shape.images * across * ceil_div(shape.output_channels, QUAD)
