"""The schedule of the fused CPU kernel as data, and the rule that gives a good one without measuring."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.pipelines.convolution import ConvolutionShape
from iree.winograd.pipelines.emit import vector_width_for

from .target import CpuTarget


@dataclass(frozen=True)
class FusedSchedule:
    """How one workgroup of the fused kernel works through its block of tiles.

    `tile_block` tiles are transformed, multiplied and transformed back while they stay in the L2 cache. The product
    keeps `register_tiles` x `register_vectors` accumulators of `vector_width` lanes in registers, and adds up
    channels in blocks of `reduction_block`: sums of sums, which costs little and rounds less than one long sum.
    Filters are fetched `filter_prefetch` channels ahead: the hardware's prefetcher stops at every page.
    `channel_splits` workgroups share a tile block, each computing its part of the output channels.

    Raises ValueError for sizes that are not positive.
    """

    vector_width: int
    tile_block: int
    register_tiles: int
    register_vectors: int
    reduction_block: int
    filter_prefetch: int = 96
    channel_splits: int = 1

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")

    @property
    def channel_block(self) -> int:
        """Output channels of one pass over the transformed tiles."""
        return self.vector_width * self.register_vectors


MAX_TILE_BLOCK = 64
MAX_REDUCTION_BLOCK = 64


def default_schedule(shape: ConvolutionShape, target: CpuTarget) -> FusedSchedule:
    """The fused schedule that needs no measurement: registers full, tiles and their products within L2."""
    width = vector_width_for(shape.output_channels // shape.groups, target.vector_width)
    register_vectors = min(2, shape.output_channels // shape.groups // width)
    # One register holds the broadcast input, one each the filter vectors.
    most_register_tiles = (target.vector_registers - register_vectors - 1) // register_vectors
    tiles = shape.tiles or 64
    bytes_per_tile = 4 * shape.transform_size * (shape.reduction + width * register_vectors)
    most_tiles = max(most_register_tiles, min(MAX_TILE_BLOCK, target.l2_bytes // bytes_per_tile))
    blocks = -(-tiles // most_tiles)
    tile_block = -(-tiles // blocks)
    rows = -(-tile_block // most_register_tiles)
    register_tiles = -(-tile_block // rows)
    tile_block = register_tiles * rows
    return FusedSchedule(
        vector_width=width,
        tile_block=tile_block,
        register_tiles=register_tiles,
        register_vectors=register_vectors,
        reduction_block=min(shape.reduction, MAX_REDUCTION_BLOCK),
    )
