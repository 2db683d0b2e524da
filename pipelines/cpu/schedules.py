"""The schedule of the fused CPU kernel as data, and the rule that gives a good one without measuring."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from iree.winograd.pipelines.convolution import ConvolutionShape
from iree.winograd.pipelines.emit import vector_width_for

from .target import KIBIBYTE, CpuTarget


@dataclass(frozen=True)
class WinogradSchedule:
    """How one workgroup of the Winograd kernel works through its block of tiles.

    `tile_block` tiles are transformed, multiplied and transformed back while they stay in the L2 cache. The
    product keeps `register_tiles` x `register_vectors` accumulators of `vector_width` lanes in registers, and
    adds up channels in blocks of `reduction_block`: sums of sums, which costs little and rounds less than one
    long sum. Filters are fetched `filter_prefetch` channels ahead: the hardware's prefetcher stops at every
    page. `channel_splits` workgroups share a tile block, each computing its part of the output channels; the
    input is then transformed by workgroups of their own, `input_block` tiles each, None where it is not.

    Raises ValueError for sizes that are not positive.
    """

    vector_width: int
    tile_block: int
    register_tiles: int
    register_vectors: int
    reduction_block: int
    filter_prefetch: int = 96
    channel_splits: int = 1
    input_block: int | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")

    @property
    def channel_block(self) -> int:
        """Output channels of one pass over the transformed tiles."""
        return self.vector_width * self.register_vectors


@dataclass(frozen=True)
class DirectSchedule:
    """How one workgroup of the direct kernel works through its rows of outputs.

    `register_pixels` x `register_vectors` sums of `vector_width` lanes are kept in registers. `row_block`
    rows of `pixel_block` outputs share each block of filters while it is in the L2 cache. `filter_prefetch`
    and `channel_splits` are as in `WinogradSchedule`.

    Raises ValueError for sizes that are not positive.
    """

    vector_width: int
    register_pixels: int
    register_vectors: int
    row_block: int
    pixel_block: int
    filter_prefetch: int = 96
    channel_splits: int = 1

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")

    @property
    def channel_block(self) -> int:
        """Output channels of one pass over the pixels."""
        return self.vector_width * self.register_vectors


MAX_TILE_BLOCK = 64
MAX_REDUCTION_BLOCK = 64
MAX_PIXEL_BLOCK = 112

WORKGROUPS = 16
"""Workgroups that a dispatch should have, for threads to share: more than most machines have cores for one.
Workgroups that a dispatch should have, for threads to share: more than most machines have cores for one."""
WORKGROUP_PRODUCTS = 1 << 21
"""Multiplications below which a workgroup isn't worth waking a thread for, about 15 microseconds."""

L2_SHARE_OF_TILES = 0.75
"""The part of L2 that transformed tiles may take; products and filters pass through the rest."""
STREAMED_FILTERS = 16 * 1024 * KIBIBYTE
"""Bytes of transformed filters from which on they come from memory rather than from a shared cache."""


def default_winograd_schedule(shape: ConvolutionShape, target: CpuTarget) -> WinogradSchedule:
    """The fused schedule that needs no measurement.

    Registers full; as many tiles as L2 holds, but so many that the multiplications of a block outlast the
    reading of its filters: two register blocks of tiles for filters in a shared cache, four for filters in
    memory.
    """
    group_outputs = shape.output_channels // shape.groups
    width = vector_width_for(group_outputs, target.vector_width)
    register_vectors = min(2, group_outputs // width)
    most_register_tiles = _most_register_rows(register_vectors, target)
    tiles = MAX_TILE_BLOCK if shape.tiles is None else shape.tiles
    bytes_per_tile = 4 * shape.transform_size * shape.reduction * shape.groups
    filter_bytes = 4 * shape.transform_size * shape.reduction * shape.output_channels
    least_tiles = most_register_tiles * (4 if filter_bytes > STREAMED_FILTERS else 2)
    tiles_in_l2 = int(target.l2_bytes * L2_SHARE_OF_TILES) // bytes_per_tile
    most_tiles = max(least_tiles, min(MAX_TILE_BLOCK, tiles_in_l2))
    blocks = -(-tiles // most_tiles)
    tile_block = -(-tiles // blocks)
    rows = -(-tile_block // most_register_tiles)
    register_tiles = -(-tile_block // rows)
    channel_blocks = shape.groups * -(-group_outputs // (width * register_vectors))
    multiplications = tiles * shape.transform_size * shape.reduction * shape.output_channels
    splits = 1 if shape.tiles is None else _splits(blocks, channel_blocks, multiplications)
    return WinogradSchedule(
        vector_width=width,
        tile_block=register_tiles * rows,
        register_tiles=register_tiles,
        register_vectors=register_vectors,
        reduction_block=min(shape.reduction, MAX_REDUCTION_BLOCK),
        channel_splits=splits,
        input_block=None if splits == 1 else max(1, tiles // WORKGROUPS),
    )


def default_direct_schedule(shape: ConvolutionShape, target: CpuTarget) -> DirectSchedule:
    """The direct schedule that needs no measurement: the register block that wastes least of this shape."""
    group_outputs = shape.output_channels // shape.groups
    width = vector_width_for(group_outputs, target.vector_width)
    pixels = shape.output_size[-1]

    def cycles(block: tuple[int, int]) -> float:
        rows, vectors = block
        passes = -(-pixels // rows) * -(-group_outputs // (vectors * width))
        # Two multiply-adds or loads a cycle, and four cycles until a sum can be added to.
        return passes * max(rows * vectors / 2, (rows + vectors) / 2, 4)

    blocks = [
        (rows, vectors)
        for vectors in range(1, min(4, group_outputs // width) + 1)
        for rows in range(1, min(pixels, _most_register_rows(vectors, target)) + 1)
    ]
    register_pixels, register_vectors = min(blocks, key=cycles)
    pixel_blocks = -(-pixels // MAX_PIXEL_BLOCK)
    pixel_block = min(pixels, -(-pixels // pixel_blocks // register_pixels) * register_pixels)
    rows = prod(shape.output_size[:-1])
    row_block = min(rows, max(1, MAX_PIXEL_BLOCK // pixel_block))
    workgroups = (shape.batch or 1) * -(-rows // row_block) * -(-pixels // pixel_block)
    channel_blocks = shape.groups * -(-group_outputs // (width * register_vectors))
    multiplications = (shape.batch or 1) * rows * pixels * shape.reduction * shape.output_channels
    return DirectSchedule(
        vector_width=width,
        register_pixels=register_pixels,
        register_vectors=register_vectors,
        row_block=row_block,
        pixel_block=pixel_block,
        channel_splits=_splits(workgroups, channel_blocks, multiplications),
    )


def _most_register_rows(vectors: int, target: CpuTarget) -> int:
    """Rows of a register block: one register holds the broadcast input, one each the filter vectors."""
    return max(1, (target.vector_registers - vectors - 1) // vectors)


def _splits(workgroups: int, channel_blocks: int, multiplications: int) -> int:
    """The parts to divide output channels into so that threads have enough workgroups, of enough work each.
    The parts to divide output channels into so that threads have enough workgroups, of enough work each."""
    wanted = min(WORKGROUPS, multiplications // WORKGROUP_PRODUCTS)
    return max(1, min(channel_blocks, wanted // workgroups))
