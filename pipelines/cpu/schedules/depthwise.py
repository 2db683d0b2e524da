"""The schedule of the depthwise kernel."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from iree.winograd.pipelines.specification.schedule import Schedule
from iree.winograd.pipelines.specification.shape import ConvolutionShape


@dataclass(frozen=True)
class DepthwiseSchedule(Schedule):
    """How one workgroup of the depthwise kernel works through its rows of outputs.

    `register_pixels` sums of `vector_width` lanes are kept in registers. `row_block` rows of outputs are
    computed for `vectors_per_pass` vectors of channels before the next ones, so that rows of the input are
    still in the L1 cache when the next row of outputs reads them. `channel_splits` workgroups share a block
    of rows, each computing its part of the channels. What `copied_rows` rows of outputs read of one vector of
    channels is copied first, or, where that is None, read in place.

    Raises ValueError for sizes that are not positive.
    """

    kind = "depthwise"

    vector_width: int
    register_pixels: int
    row_block: int
    vectors_per_pass: int
    channel_splits: int = 1
    copied_rows: int | None = None

    @property
    def channel_block(self) -> int:
        """Output channels of one block of filters: those of a vector."""
        return self.vector_width


def can_copy(shape: ConvolutionShape) -> bool:
    """Whether the kernel can copy the input of this convolution: rows of an image, channel by channel."""
    return shape.spatial_rank <= 2 and shape.input_channels == shape.output_channels == shape.groups


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
    return shape.element_types.input_bytes * elements
