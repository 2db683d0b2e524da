"""The schedule of the depthwise kernel."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.pipelines.specification.schedule import Schedule


@dataclass(frozen=True)
class DepthwiseSchedule(Schedule):
    """How one workgroup of the depthwise kernel works through its rows of outputs.

    `register_pixels` sums of `vector_width` lanes are kept in registers. `row_block` rows of outputs are
    computed for `vectors_per_pass` vectors of channels before the next ones, so that rows of the input are
    still in the L1 cache when the next row of outputs reads them. `channel_splits` workgroups share a block
    of rows, each computing its part of the channels.

    Raises ValueError for sizes that are not positive.
    """

    kind = "depthwise"

    vector_width: int
    register_pixels: int
    row_block: int
    vectors_per_pass: int
    channel_splits: int = 1

    @property
    def channel_block(self) -> int:
        """Output channels of one block of filters: those of a vector."""
        return self.vector_width
