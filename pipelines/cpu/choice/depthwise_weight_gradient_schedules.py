"""The schedules of a depthwise weight gradient: those that its default one is predicted from."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import gcd, prod

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.cpu.kernels.kernel_of import misfit
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.schedules.depthwise_weight_gradient import DepthwiseWeightGradientSchedule
from iree.winograd.pipelines.emission.vectors import vector_width_for
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .representative import representative

PIXEL_BLOCK = 128
"""Outputs of a block at most, but a row: L1 holds them, for one vector of channels, with what they read."""
BLOCKS_OF_SLICE = 64
"""At most: sums over so many blocks, and over slices at last, round less than one over all blocks."""
INDEPENDENT_SUMS = 8
"""Two multiply-adds start in a cycle, and four cycles later each sum can be added to again."""
REGISTER_PIXELS = (8, 4)
WORKGROUPS_PER_THREAD = (1, 2, 4)


def depthwise_weight_gradient_schedules(
    shape: ConvolutionShape, target: CpuTarget, threads: int
) -> Iterator[DepthwiseWeightGradientSchedule]:
    """Registers full of sums; slices of the outputs and parts of the channels, for threads to share."""
    width = vector_width_for(shape.output_channels, target.vector_width)
    tap_rows, interleaved, pixels = _register_block(shape, target)
    row = shape.output_size[-1]
    rows = shape.output_size[-2] if shape.spatial_rank > 1 else 1
    row_blocks = ceil_div(rows, max(1, PIXEL_BLOCK // row))
    blocks = representative(shape).images * prod(shape.output_size[:-2]) * row_blocks
    for splits, workgroups in product(_channel_splits(shape, width), WORKGROUPS_PER_THREAD):
        least = max(ceil_div(blocks, BLOCKS_OF_SLICE), ceil_div(workgroups * threads, splits))
        # As many workgroups for each thread.
        together = threads // gcd(threads, splits)
        schedule = DepthwiseWeightGradientSchedule(
            vector_width=width,
            register_tap_rows=tap_rows,
            register_pixels=pixels,
            interleaved_sums=interleaved,
            pixel_block=ceil_div(rows, row_blocks) * row,
            slices=ceil_div(least, together) * together,
            channel_splits=splits,
        )
        if misfit(schedule, shape, target) is None:
            yield schedule


def _register_block(shape: ConvolutionShape, target: CpuTarget) -> tuple[int, int, int]:
    """Rows of taps and sums for each, as many as there are registers for beside an element, and pixels."""
    free = target.vector_registers - 2
    row = shape.kernel_size[-1] * shape.group_inputs
    tap_rows = shape.kernel_size[-2] if shape.spatial_rank > 1 else 1
    if tap_rows * row + REGISTER_PIXELS[-1] > free:
        tap_rows = 1
    sums = tap_rows * row
    interleaved = max(1, min(ceil_div(INDEPENDENT_SUMS, sums), (free - REGISTER_PIXELS[-1]) // sums))
    fitting = (each for each in REGISTER_PIXELS if sums * interleaved + each <= free)
    return tap_rows, interleaved, next(fitting, REGISTER_PIXELS[-1])


def _channel_splits(shape: ConvolutionShape, width: int) -> list[int]:
    vectors = ceil_div(shape.output_channels, width)
    return [1 << power for power in range(vectors.bit_length())]
