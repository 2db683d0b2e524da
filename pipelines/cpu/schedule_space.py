"""The schedules of a CPU kernel that are worth measuring."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from iree.winograd.pipelines.convolution import ConvolutionShape

from .schedules import (
    MAX_PIXEL_BLOCK,
    ROW_PADDING,
    DirectSchedule,
    WinogradSchedule,
    most_register_rows,
    staged_elements,
)
from .target import CpuTarget

MOST_REGISTER_VECTORS = 4
REDUCTION_BLOCKS = (32, 64, 128)
FILTER_PREFETCHES = (32, 96)
MOST_TILE_BLOCK = 128


def winograd_schedules(
    shape: ConvolutionShape, target: CpuTarget, default: WinogradSchedule
) -> Iterator[WinogradSchedule]:
    """Combinations of register blocks, tile blocks, sums and splits, other than the `default`.

    Those whose workgroup needs more memory than L2 holds are left out.
    """
    tiles = default.tile_block if shape.tiles is None else shape.tiles
    channel_blocks = -(-shape.output_channels // shape.groups // default.vector_width)
    most_vectors = min(MOST_REGISTER_VECTORS, channel_blocks)
    splits = [count for count in (1, 2, 4, 8, 16) if count <= channel_blocks]
    separate = [None] if shape.tiles is None else [None, max(1, min(64, tiles // 16))]
    for vectors, interleaved in product(range(1, most_vectors + 1), (1, 2)):
        most_rows = most_register_rows(vectors * interleaved, target)
        for rows in sorted({most_rows, most_rows - 1, -(-most_rows * 2 // 3)} - {0}, reverse=True):
            for blocks in (1, 2, 3, 4, 6, 8):
                for reduction, prefetch, split, input_block in product(
                    REDUCTION_BLOCKS, FILTER_PREFETCHES, splits, separate
                ):
                    if (input_block is None) != (split == 1) and input_block is None:
                        continue
                    schedule = replace(
                        default,
                        tile_block=rows * blocks,
                        register_tiles=rows,
                        register_vectors=vectors,
                        interleaved_sums=interleaved,
                        reduction_block=min(reduction, shape.reduction),
                        filter_prefetch=prefetch,
                        channel_splits=split,
                        input_block=input_block,
                    )
                    if schedule != default and _fits(schedule, shape, target, tiles):
                        yield schedule


def direct_schedules(
    shape: ConvolutionShape, target: CpuTarget, default: DirectSchedule
) -> Iterator[DirectSchedule]:
    """Combinations of register blocks, rows, pixels and splits that L2 holds, other than the `default`."""
    pixels = shape.output_size[-1]
    rows = 1
    for size in shape.output_size[:-1]:
        rows *= size
    channel_vectors = -(-shape.output_channels // shape.groups // default.vector_width)
    for vectors in range(1, min(MOST_REGISTER_VECTORS, channel_vectors) + 1):
        most = min(pixels, most_register_rows(vectors, target))
        even = -(-pixels // -(-pixels // most))
        for register_pixels in sorted({most, even, max(1, most - 1)}):
            for pixel_block, row_block, prefetch, split in product(
                sorted({min(pixels, MAX_PIXEL_BLOCK), min(pixels, 2 * register_pixels), register_pixels}),
                sorted({1, min(2, rows), min(4, rows), min(8, rows), default.row_block}),
                FILTER_PREFETCHES,
                [count for count in (1, 2, 4, 8) if count <= channel_vectors],
            ):
                schedule = replace(
                    default,
                    register_pixels=register_pixels,
                    register_vectors=vectors,
                    pixel_block=pixel_block,
                    row_block=row_block,
                    filter_prefetch=prefetch,
                    channel_splits=split,
                )
                fits = 4 * staged_elements(shape, row_block, pixel_block) <= target.l2_bytes
                if schedule != default and fits:
                    yield schedule


def _fits(schedule: WinogradSchedule, shape: ConvolutionShape, target: CpuTarget, tiles: int) -> bool:
    """Whether a workgroup's memory is within L2, and the block within the tiles and the bounds of sense."""
    products = shape.transform_size * schedule.tile_block * schedule.channel_block
    inputs = 0
    if schedule.input_block is None:
        row = shape.groups * shape.reduction + ROW_PADDING
        inputs = shape.transform_size * schedule.tile_block * row
    between_passes = shape.transform_size * target.vector_width
    within = 4 * (products + inputs + between_passes) <= target.l2_bytes
    return within and schedule.tile_block <= min(MOST_TILE_BLOCK, tiles + schedule.register_tiles - 1)
