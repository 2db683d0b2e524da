"""What two pointwise layers in a row take by one kernel, and by two."""

from __future__ import annotations

from collections.abc import Sequence

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.ops import OutputTransformOp
from iree.winograd.pipelines.gpu.device.matrix_unit import WARP_THREADS
from iree.winograd.pipelines.gpu.device.warpgroup import WARPGROUP_ROWS
from iree.winograd.pipelines.gpu.schedules.fit import GpuSchedule
from iree.winograd.pipelines.gpu.schedules.pointwise_pair import (
    PointwisePairSchedule,
    PointwisePairShape,
)
from iree.winograd.pipelines.machines.model import GpuMachine

from .cost_model import SCHEDULERS, clock_rate, launch_seconds
from .mapping_cost import COPIED_BYTES, EDGE_SECONDS
from .stage_seconds import stage_seconds

FUNCTION_INSTRUCTIONS = 17
"""Of an error function in f32; other functions take no more."""
SUM_INSTRUCTIONS, SPLIT_SUM_INSTRUCTIONS = 4, 24
"""Of a sum of the first layer, beside its epilogue: to be rounded and multiplied, or joined, scaled, split
and multiplied."""
NARROW_PRODUCTS = 2.5
"""Times that products by the 32 columns of a chunk of f32 take, whose rows shared memory gives."""
TURN_SECONDS = 0.33e-6
"""Of a turn, beside its products: until sums are there, and the next warpgroup knows. With all of these an
H200 took for nine pairs of 3136 to 100352 pixels what is predicted, within 6%."""
BEGIN_SECONDS = 2.7e-6
"""Until the first block begins."""
_TOGETHER = 4
"""The larger of several times counts more by this power."""
_NO_INSTRUCTIONS = ("arith.constant", "arith.extf", "arith.truncf", "vector.yield")


def epilogue_instructions(transform: OutputTransformOp) -> int:
    """Of an output, about."""
    names = [str(view.operation.name) for view in transform.body.operations]
    computed = [name for name in names if name not in _NO_INSTRUCTIONS]
    return len(computed) + FUNCTION_INSTRUCTIONS * sum(name.startswith("math.") for name in computed)


def instruction_seconds(numbers: int, instructions: int, machine: GpuMachine) -> float:
    """Of a multiprocessor that has so many instructions for each of some numbers."""
    return numbers * instructions / (SCHEDULERS * WARP_THREADS * clock_rate(machine))


def separate_seconds(
    shape: PointwisePairShape, schedules: Sequence[GpuSchedule], instructions: int, machine: GpuMachine
) -> float:
    """Seconds of two kernels by these schedules, the first of which has an epilogue of so many instructions.

    Predictions of layers leave that out: 38.5 million error functions took an H200 23 us of half precision,
    44 in f32.
    """
    layers = zip((shape.widening, shape.narrowing), schedules, strict=True)
    alone = sum(sum(stage_seconds(layer, own, machine).values()) for layer, own in layers)
    numbers = shape.pixels * shape.between // machine.multiprocessors
    return alone + instruction_seconds(numbers, instructions, machine)


def pointwise_pair_seconds(
    shape: PointwisePairShape, schedule: PointwisePairSchedule, instructions: int, machine: GpuMachine
) -> float:
    """Seconds of the one kernel, whose first epilogue has so many `instructions`, and of its launch.

        turn   = products of a warpgroup's chunk / rate of matrix units + latency
        chunk  = warpgroups * max(turn, instructions / clock), and no less than both of one warpgroup
        kernel = begin + blocks of the fullest multiprocessor * (chunks * chunk + edge)

    beside the bytes of image, filters and results, all of them together by a power.
    """
    if machine.matrix_flops is None:
        raise ValueError(f"the rate of the matrix units of {machine.name} isn't known")
    first, last, is_split = shape.widening, shape.narrowing, schedule.parts > 1
    blocks = ceil_div(shape.pixels, schedule.pixels)
    numbers = WARPGROUP_ROWS * schedule.chunk
    channels = shape.channels * (NARROW_PRODUCTS if is_split else 1) + shape.outputs
    operations = 2 * schedule.widening.products * numbers * channels
    turn = operations * machine.multiprocessors / machine.matrix_flops + TURN_SECONDS
    instructions += SPLIT_SUM_INSTRUCTIONS if is_split else SUM_INSTRUCTIONS
    own = instruction_seconds(numbers, instructions, machine)
    chunk = max(schedule.warpgroups * max(turn, own), turn + own)
    chunks = shape.between // schedule.chunk
    filters = chunks * schedule.stage_bytes(shape.channels, shape.outputs)
    block = max(chunks * chunk, filters / COPIED_BYTES)
    edge = EDGE_SECONDS * schedule.pixels * shape.outputs
    read = blocks * filters / machine.cache_bandwidth
    moved = (first.images * (first.image_bytes + last.result_bytes) + filters) / machine.memory_bandwidth
    computed = BEGIN_SECONDS + ceil_div(blocks, machine.multiprocessors) * (block + edge)
    return _together(computed, moved, read) + launch_seconds(machine)


def _together(*seconds: float) -> float:
    return float(sum(each**_TOGETHER for each in seconds) ** (1 / _TOGETHER))
