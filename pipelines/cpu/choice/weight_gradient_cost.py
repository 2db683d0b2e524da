"""What the kernel of a weight gradient takes by its schedule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import prod

from iree.winograd.dialect.decomposition import Decomposition
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.schedules.weight_gradient import WeightGradientSchedule
from iree.winograd.pipelines.emission.vectors import vector_width_for
from iree.winograd.pipelines.machines.model import CpuMachine
from iree.winograd.pipelines.specification.shape import ConvolutionShape

from .product_cost import channel_seconds
from .rates import (
    ACCUMULATE_CYCLES,
    ELEMENT_CYCLES,
    INPUT_OPERATION_CYCLES,
    OUTPUT_OPERATION_CYCLES,
    PRODUCT_EFFICIENCY,
    UNHIDDEN,
)
from .transform_cost import nested_operations, transform_seconds
from .workers import Workers, complete


def weight_gradient_seconds(
    shape: ConvolutionShape,
    schedule: WeightGradientSchedule,
    target: CpuTarget,
    machine: CpuMachine,
    threads: int,
) -> Mapping[str, float]:
    """Seconds of the stages of `WeightGradientKernel`.

        input    = T * V*C/lanes * (1.3 * operations + 2*A) cycles, and that of writing them
        gradient = T * K/lanes * (1.3 * operations + A + M) cycles, and that of writing them
        products = register blocks * (T / efficiency + tile blocks * sums * 3.8 cycles), and what of reading
                   both once for each block of the other's channels isn't hidden
        output   = V*C * K/lanes * (2.3 * operations + A + P) cycles

    in the symbols of docs/architecture.md, with M outputs and P taps of a part.
    """
    decomposition = shape.decomposition
    tiles, points = shape.tiles or prod(shape.tiles_per_image), shape.transform_size
    tile_blocks = -(-tiles // schedule.tile_block)
    cycle = 1 / machine.clock
    found = _operations(decomposition)
    outputs, taps = prod(decomposition.output_tile), prod(decomposition.part_size)
    image_lanes = vector_width_for(shape.group_inputs, target.vector_width)
    image_vectors = decomposition.view_count * shape.groups * -(-shape.group_inputs // image_lanes)
    gradient_lanes = vector_width_for(shape.output_channels, target.vector_width)
    gradient_vectors = -(-shape.output_channels // gradient_lanes)
    per_image = INPUT_OPERATION_CYCLES * found.input + (ELEMENT_CYCLES * 2 * points)
    per_gradient = INPUT_OPERATION_CYCLES * found.gradient + (ELEMENT_CYCLES * (points + outputs))
    bytes_ = shape.element_types.input_bytes * points * tiles
    image_bytes, gradient_bytes = bytes_ * shape.groups * shape.reduction, bytes_ * shape.output_channels
    transforming = Workers(machine, threads, tile_blocks)
    images = complete(
        {"input": transform_seconds(tiles * image_vectors * per_image * cycle, image_bytes, transforming)},
        transforming,
    )
    gradients = complete(
        {
            "gradient": transform_seconds(
                tiles * gradient_vectors * per_gradient * cycle, gradient_bytes, transforming
            )
        },
        transforming,
    )
    row_blocks = shape.groups * decomposition.view_count * -(-shape.group_inputs // schedule.row_block)
    channel_blocks = -(-shape.group_outputs // schedule.channel_block)
    workers = Workers(machine, threads, row_blocks * channel_blocks)
    product = schedule.product
    register_blocks = schedule.row_block // product.rows * (schedule.channel_block // product.channels)
    sums = schedule.register_rows * schedule.register_vectors
    per_channel = channel_seconds(product, target, machine) / PRODUCT_EFFICIENCY
    multiplying = workers.load * points * register_blocks * tiles * per_channel
    accumulating = workers.load * points * register_blocks * tile_blocks * sums * ACCUMULATE_CYCLES * cycle
    read = workers.share * bytes_ * (schedule.row_block + schedule.channel_block)
    reading = read / workers.shared_bandwidth(image_bytes + gradient_bytes)
    per_output = OUTPUT_OPERATION_CYCLES * found.output + (points + taps)
    output_vectors = schedule.row_block * schedule.channel_block // schedule.vector_width
    products = complete(
        {
            "products": max(multiplying, reading) + UNHIDDEN * min(multiplying, reading) + accumulating,
            "output": workers.load * output_vectors * per_output * cycle,
        },
        workers,
    )
    return {
        name: images.get(name, 0) + gradients.get(name, 0) + products.get(name, 0)
        for name in (*images, "gradient", "products", "output")
    }


@dataclass(frozen=True)
class _Operations:
    """On one tile of one channel, or the sums of a pair of channels."""

    input: int
    gradient: int
    output: int


@cache
def _operations(decomposition: Decomposition) -> _Operations:
    found = decomposition.gradient_transforms
    return _Operations(
        nested_operations([each.input for each in found]),
        nested_operations([each.filter for each in found]),
        nested_operations([each.output for each in found]),
    )
