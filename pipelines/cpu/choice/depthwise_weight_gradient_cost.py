"""What the kernel of a depthwise weight gradient takes by its schedule."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.cpu.kernels.depthwise_weight_gradient_blocking import (
    DepthwiseWeightGradientBlocking,
)
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.schedules.depthwise_weight_gradient import DepthwiseWeightGradientSchedule
from iree.winograd.pipelines.machines.model import CpuMachine
from iree.winograd.pipelines.problems.shape import WeightGradientShape

from .product_cost import multiply_add_seconds
from .rates import ACCUMULATE_CYCLES, CHANNEL_PARTS, CHANNEL_VECTORS, DEPTHWISE_PRODUCTS, TAP_ROW_CYCLES
from .slice_sum_cost import slice_sum_seconds
from .workers import Workers, complete, in_turn


def depthwise_weight_gradient_seconds(
    shape: WeightGradientShape,
    schedule: DepthwiseWeightGradientSchedule,
    target: CpuTarget,
    machine: CpuMachine,
    threads: int,
) -> Mapping[str, float]:
    """Seconds of the stages of `DepthwiseWeightGradientKernel`.

        products = a multiply-add and its loads per output, tap and vector of channels, and moving the data
        output   = rows of taps * (taps * sums * 3.8 + rows of outputs * 8.5) cycles per block and vector

    and that of adding up the taps of several slices.
    """
    blocking = DepthwiseWeightGradientBlocking(shape, schedule, target)
    batch, cycle = shape.images, 1 / machine.clock
    workers = Workers(machine, threads, schedule.slices * blocking.channel_parts)
    blocks = ceil_div(batch * blocking.expected_blocks_per_image, schedule.slices)
    block_vectors = workers.load * blocks * blocking.channel_blocks.part_size(blocking.channel_parts)
    loading = blocking.loads_per_product / machine.loads_per_cycle * cycle
    per_product = max(multiply_add_seconds(target, machine), loading) / DEPTHWISE_PRODUCTS
    size = batch * (shape.image_bytes + shape.result_bytes)
    reached = CHANNEL_PARTS if blocking.channel_parts > 1 else CHANNEL_VECTORS
    moved = size / workers.count / (reached * workers.shared_bandwidth(size))
    accumulating = shape.kernel_size[-1] * shape.group_inputs * schedule.interleaved_sums * ACCUMULATE_CYCLES
    starting = schedule.pixel_block // shape.output_size[-1] * TAP_ROW_CYCLES
    stages = complete(
        {
            "products": block_vectors * schedule.pixel_block * shape.reduction * per_product + moved,
            "output": block_vectors * prod(shape.kernel_size[:-1]) * (accumulating + starting) * cycle,
        },
        workers,
    )
    if schedule.slices == 1:
        return stages
    return in_turn(stages, slice_sum_seconds(shape, schedule.slices, machine, threads))
