"""What transforms to the Winograd domain take that are dispatches of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.algebra.recipe import Recipe
from iree.winograd.pipelines.cpu.kernels.filters import INPUT_CHANNELS
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.emission.vectors import vector_width_for
from iree.winograd.pipelines.machines.model import CpuMachine
from iree.winograd.pipelines.problems.schedule import FILTER_TRANSFORM_STAGE
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .rates import ELEMENT_CYCLES, INPUT_OPERATION_CYCLES
from .workers import Workers, complete


def filter_transform_seconds(
    shape: ConvolutionShape, channel_block: int, target: CpuTarget, machine: CpuMachine, threads: int
) -> Mapping[str, float]:
    """Seconds of `FilterTransformKernel`, for a filter that is known only at run time; else none.

        filter transform = V*C * K/lanes * (1.3 * operations + A + P * lanes) cycles, and that of writing it

    in the symbols of docs/explanation/architecture.md, with P taps of a part, which are read one by one:
    in torch's layouts the output channels are seldom neighbours.
    """
    if not shape.runtime_filter:
        return {}
    blocks = ceil_div(shape.output_channels, channel_block)
    workers = Workers(machine, threads, blocks * ceil_div(shape.group_inputs, INPUT_CHANNELS))
    lanes = vector_width_for(shape.group_outputs, target.vector_width)
    vectors = shape.groups * shape.reduction * ceil_div(shape.group_outputs, lanes)
    work = vectors * filter_vector_seconds(shape, lanes, machine)
    return complete({FILTER_TRANSFORM_STAGE: transform_seconds(work, shape.filter_bytes, workers)}, workers)


def filter_vector_seconds(shape: ConvolutionShape, lanes: int, machine: CpuMachine) -> float:
    """Of the transform of filters by a vector of output channels and one input channel of a view.

    Constant ones are packed by vectors.
    """
    decomposition = shape.decomposition
    operations = nested_operations([each.filter for each in decomposition.transforms])
    loads = prod(decomposition.part_size) * (lanes if shape.runtime_filter else 1)
    cycles = INPUT_OPERATION_CYCLES * operations + ELEMENT_CYCLES * (shape.transform_size + loads)
    return cycles / machine.clock


def transform_seconds(work: float, size: int, workers: Workers) -> float:
    """Of a thread's part of `work` seconds whose results are `size` bytes.

    Their lines are read before they are written.
    """
    moved = 2 * size / workers.count
    return workers.load / workers.workgroups * work + moved / workers.shared_bandwidth(size)


def nested_operations(recipes: Sequence[Recipe]) -> int:
    """Operations on one tile of one channel: each dimension in turn transforms all lines of the tile."""
    sizes = [recipe.inputs for recipe in recipes]
    operations = 0
    for dimension, recipe in enumerate(recipes):
        operations += len(recipe.operations) * prod(sizes) // sizes[dimension]
        sizes[dimension] = len(recipe.outputs)
    return operations
