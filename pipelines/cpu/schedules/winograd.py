"""The schedule of the Winograd kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from iree.winograd.pipelines.cpu.processor.product import RegisterBlock
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.problems.schedule import Schedule
from iree.winograd.pipelines.problems.shape import ConvolutionShape


@dataclass(frozen=True)
class WinogradSchedule(Schedule):
    """How one workgroup of the Winograd kernel works through its block of tiles.

    `tile_block` tiles are transformed, multiplied and transformed back while they stay in the L2 cache. The
    product keeps `register_tiles` x `register_vectors` sums of `vector_width` lanes in registers, and adds up
    channels in blocks of `reduction_block`: sums of sums, which costs little and rounds less than one long
    sum. Each sum has `sum_registers`: one, and blocks are added to those before in memory, or two, of which
    the second holds the total of blocks. Filters are fetched `filter_prefetch` channels ahead: the
    hardware's prefetcher stops at every page. `channel_splits` workgroups share a tile block, each computing
    its part of the output channels: each of them transforms the block's input, or workgroups of their own do,
    `input_block` tiles each, None where there are none. Filters are transformed before, or with
    `filter_block` by each workgroup, so many input channels at a time, in L2: of a 3x3 layer that takes a
    ninth to a quarter of the memory, and of the time to read them.
    With `image_prefetch` a workgroup fetches what is far away while it multiplies: its outputs, what the
    epilogue reads there, and the tiles that lie so many blocks ahead. That is for channels-last images.
    Of images of any size there are tile blocks in a multiple of `block_multiple`, smaller ones where need be.

    Raises ValueError for sizes that are not positive.
    """

    kind = "winograd"

    vector_width: int
    tile_block: int
    register_tiles: int
    register_vectors: int
    reduction_block: int
    sum_registers: int = 1
    filter_prefetch: int = 96
    channel_splits: int = 1
    input_block: int | None = None
    filter_block: int | None = None
    image_prefetch: int | None = None
    block_multiple: int | None = None

    @cached_property
    def product(self) -> RegisterBlock:
        """What multiplies a register block of transformed tiles."""
        return RegisterBlock(
            rows=self.register_tiles,
            vectors=self.register_vectors,
            width=self.vector_width,
            filter_prefetch=self.filter_prefetch,
        )

    @property
    def channel_block(self) -> int:
        """Output channels of one pass over the transformed tiles."""
        return self.product.channels

    @property
    def summed_block(self) -> int:
        """Products that the sum of a block takes."""
        return self.reduction_block

    @property
    def transforms_filters(self) -> bool:
        return self.filter_block is not None

    @property
    def apart_from_sums(self) -> WinogradSchedule:
        """The same for all reduction blocks."""
        return replace(self, reduction_block=1)


def images_are_far(shape: ConvolutionShape, target: CpuTarget) -> bool:
    """Whether L2 holds but a part of what a convolution reads or writes."""
    return shape.images * max(shape.image_bytes, shape.result_bytes) > target.l2_bytes
