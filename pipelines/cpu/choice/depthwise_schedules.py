"""The schedules of the depthwise kernel from which the default one is taken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.passes.match.convolutions.problem import OTHER_SIZES
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.schedules.depthwise import DepthwiseSchedule, can_copy
from iree.winograd.pipelines.emission.vectors import vector_width_for
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .representative import representative
from .workgroups import workgroup_counts

MAX_DEPTHWISE_PIXELS = 16
MIN_DEPTHWISE_PIXELS = 8
"""Sums of a depthwise convolution that hide the latency of multiply-adds, whatever it takes in registers."""
VECTORS_PER_PASS = 4
"""Vectors of channels of a pass over all rows: neighbouring cache lines, yet few rows of them fill L1."""
ONE_PASS_IMAGE = 2
"""Times the L2 cache, from which on an image comes from further away: line after line it comes fastest.

Of unknown sizes it is the largest that is expected: one pass over an image that is near takes no longer.
"""


def depthwise_defaults(
    shape: ConvolutionShape, target: CpuTarget, threads: int
) -> Iterator[DepthwiseSchedule]:
    """Registers full of sums and of the filters of one row of taps; rows, then channels, in parts.

    In convolutions of one group the row's taps have filters of one input channel at a time.
    """
    width = vector_width_for(shape.output_channels, target.vector_width)
    pixels, rows, batch = shape.output_size[-1], shape.output_rows, representative(shape).images
    filters = shape.decomposition.kernel_size[-1] * (1 if shape.groups == 1 else shape.group_inputs)
    most_pixels = min(MAX_DEPTHWISE_PIXELS, max(MIN_DEPTHWISE_PIXELS, target.vector_registers - filters - 2))
    vectors = ceil_div(shape.output_channels, width)
    largest = shape.image_bytes * max(OTHER_SIZES) ** len(shape.unknown_sizes)
    for count in workgroup_counts(threads):
        row_block = ceil_div(rows, max(1, min(rows, count // batch)))
        tasks = batch * ceil_div(rows, row_block)
        comes_from_far = largest * row_block > ONE_PASS_IMAGE * target.l2_bytes * rows
        vectors_per_pass = vectors if comes_from_far else VECTORS_PER_PASS
        passes = ceil_div(vectors, vectors_per_pass)
        schedule = DepthwiseSchedule(
            vector_width=width,
            register_pixels=ceil_div(pixels, ceil_div(pixels, most_pixels)),
            row_block=row_block,
            vectors_per_pass=vectors_per_pass,
            channel_splits=max(1, min(passes, count // tasks)),
        )
        yield schedule
        if can_copy(shape):
            yield replace(schedule, copied_rows=row_block)
