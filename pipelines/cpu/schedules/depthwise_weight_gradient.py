"""The schedule of the depthwise weight gradient's kernel."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.problems.schedule import Schedule


@dataclass(frozen=True)
class DepthwiseWeightGradientSchedule(Schedule):
    """How the kernel of a depthwise weight gradient works through outputs, taps and channels.

    A workgroup has one of `slices` slices of the outputs of all images, and one of `channel_splits` parts of
    their channels. It goes through blocks of `pixel_block` outputs, whole rows of an image, and sums the
    products of one vector of channels by `register_tap_rows` rows of taps in registers: `interleaved_sums`
    sums for each tap, to which `register_pixels` neighbours are added in turn. They are added to those of the
    blocks before, and what slices sum is summed at last, in their order.

    Raises ValueError for sizes that are not positive.
    """

    kind = "depthwise-weight-gradient"

    vector_width: int
    register_tap_rows: int
    register_pixels: int
    interleaved_sums: int
    pixel_block: int
    slices: int
    channel_splits: int = 1

    @property
    def summed_block(self) -> int:
        """Products that one of the sums in registers takes."""
        return ceil_div(self.pixel_block, self.interleaved_sums)
