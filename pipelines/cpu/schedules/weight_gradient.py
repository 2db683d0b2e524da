"""The schedule of the weight gradient's kernel."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.pipelines.cpu.processor.product import Product, RegisterBlock
from iree.winograd.pipelines.problems.schedule import Schedule


@dataclass(frozen=True)
class WeightGradientSchedule(Schedule):
    """How the kernel of a weight gradient works through tiles and channels.

    A workgroup computes the gradients of `row_block` input channels by `channel_block` output channels. It
    keeps `register_rows` x `register_vectors` sums of `vector_width` lanes in registers over `tile_block`
    tiles, and adds them to those of the blocks before: sums of sums, which round less than one long sum.
    Gradients are fetched `gradient_prefetch` tiles ahead.

    Dispatches of their own transform all tiles beforehand. Or, with `tile_slices`, a workgroup does so itself
    for one of so many slices of the tiles, block by block; what slices sum is summed at last, in their order.

    Raises ValueError for sizes that are not positive.
    """

    kind = "weight-gradient"

    vector_width: int
    tile_block: int
    row_block: int
    channel_block: int
    register_rows: int
    register_vectors: int
    gradient_prefetch: int = 8
    tile_slices: int | None = None

    @property
    def product(self) -> Product:
        """What multiplies a register block of transformed images and gradients."""
        return RegisterBlock(
            rows=self.register_rows,
            vectors=self.register_vectors,
            width=self.vector_width,
            filter_prefetch=self.gradient_prefetch,
        )

    @property
    def summed_block(self) -> int:
        """Products that one of the sums of a block takes."""
        return self.tile_block
