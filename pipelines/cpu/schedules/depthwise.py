"""The schedule of the depthwise kernel, and the convolutions that it computes."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.emission.vectors import vector_width_for
from iree.winograd.pipelines.problems.schedule import RunningSumSchedule
from iree.winograd.pipelines.problems.shape import ConvolutionShape

MAX_GROUP_INPUTS = 16
"""Input channels of a group, all of which are written out for each tap."""
MAX_INPUTS_PER_OUTPUT = 4
"""Input channels per output channel of a group: as many vectors are shuffled to one for each tap."""
MIN_ONLY_CHANNELS = 4
"""Of a vector that has all channels."""
MAX_SHARED_TAPS = 16
"""Taps of a row of a convolution in one group, all of which are written out."""
SHORT_ROW = 4
"""Pixels of a narrower register block, for rows of unknown length: a multiply-add takes four cycles."""


@dataclass(frozen=True)
class DepthwiseSchedule(RunningSumSchedule):
    """How one workgroup of the depthwise kernel works through its rows of outputs.

    `register_pixels` sums of `vector_width` lanes are kept in registers. `row_block` rows of outputs are
    computed for `vectors_per_pass` vectors of channels before the next ones, so that rows of the input are
    still in the L1 cache when the next row of outputs reads them. `channel_splits` workgroups share a block
    of rows, each computing its part of the channels. What `copied_rows` rows of outputs read of one vector of
    channels is copied first, or, where that is None, read in place. With `image_prefetch` a workgroup that
    has all channels fetches what it reads and writes so many register blocks later. Of `block_multiple` see
    `DirectSchedule`.

    Raises ValueError for sizes that are not positive.
    """

    kind = "depthwise"

    vector_width: int
    register_pixels: int
    row_block: int
    vectors_per_pass: int
    channel_splits: int = 1
    copied_rows: int | None = None
    image_prefetch: int | None = None
    block_multiple: int | None = None

    @property
    def channel_block(self) -> int:
        """Output channels of one block of filters: those of a vector."""
        return self.vector_width


def is_depthwise(shape: ConvolutionShape, target: CpuTarget) -> bool:
    """Whether this is a direct convolution in groups that vectors of channels can span."""
    return shape.transform_size == 1 and vectors_span_groups(
        shape.input_channels, shape.output_channels, shape.groups, target
    )


def vectors_span_groups(input_channels: int, output_channels: int, groups: int, target: CpuTarget) -> bool:
    """Whether a vector of output channels holds whole groups, several of them, of few channels each."""
    group_inputs, group_outputs = input_channels // groups, output_channels // groups
    width = vector_width_for(output_channels, target.vector_width)
    return (
        groups > 1
        and group_outputs < width
        and width % group_outputs == 0
        and group_inputs <= min(MAX_GROUP_INPUTS, MAX_INPUTS_PER_OUTPUT * group_outputs)
    )


def shares_pixels(shape: ConvolutionShape, target: CpuTarget) -> bool:
    """Whether this is a direct convolution in one group whose output channels are one vector.

    Its lanes share each element of the input, which several taps of a row multiply.
    """
    channels, taps = shape.output_channels, shape.kernel_size[-1]
    reach = (taps - 1) * shape.dilations[-1]
    return (
        shape.transform_size == 1
        and shape.groups == 1
        and channels >= MIN_ONLY_CHANNELS
        and vector_width_for(channels, target.vector_width) == channels
        and 1 < taps <= MAX_SHARED_TAPS
        and max(shape.padding_low[-1], shape.padding_high[-1]) <= reach
    )


def can_copy(shape: ConvolutionShape) -> bool:
    """Whether the kernel can copy the input of this convolution: rows of an image, channel by channel."""
    return shape.spatial_rank <= 2 and shape.input_channels == shape.output_channels == shape.groups


def can_fetch(shape: ConvolutionShape, schedule: DepthwiseSchedule) -> bool:
    """Whether a workgroup can fetch what it reads of a row later: all channels of an image where it is."""
    vectors = schedule.vectors_per_pass if schedule.channel_splits == 1 else 0
    return (
        shape.spatial_rank == 2
        and shape.groups > 1
        and vectors * schedule.vector_width >= shape.output_channels
        and schedule.copied_rows is None
    )


def copied_extents(shape: ConvolutionShape, rows: int) -> tuple[int, ...]:
    """Rows, of images that have some, and columns of the copy that `rows` rows of outputs read."""
    outputs = (rows, shape.output_size[-1])[-shape.spatial_rank :]
    return tuple(
        (count - 1) * step + (taps - 1) * dilation + 1
        for count, step, taps, dilation in zip(
            outputs, shape.strides, shape.kernel_size, shape.dilations, strict=True
        )
    )


def depthwise_workgroup_bytes(shape: ConvolutionShape, schedule: DepthwiseSchedule) -> int:
    """The memory of a workgroup for the copy of its input."""
    if schedule.copied_rows is None:
        return 0
    elements = prod(copied_extents(shape, schedule.copied_rows)) * schedule.vector_width
    return shape.element_types.domain_bytes * elements
