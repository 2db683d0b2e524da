"""The schedules of kernels on tiles of bf16: their default ones are the fastest predicted of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import prod
from typing import TypeAlias

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.cpu.kernels.kernel_of import misfit
from iree.winograd.pipelines.cpu.processor.matrix_unit import TILE_LANES, TILE_ROWS
from iree.winograd.pipelines.cpu.processor.product import RegisterBlock
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.schedules.bf16_vectors import Bf16VectorSchedule
from iree.winograd.pipelines.cpu.schedules.direct import direct_channel_blocks, in_lines
from iree.winograd.pipelines.cpu.schedules.matrix_unit import (
    Bf16MatrixUnitSchedule,
    F16MatrixUnitSchedule,
    HalfMatrixUnitSchedule,
    MatrixUnitSchedule,
)
from iree.winograd.pipelines.cpu.schedules.tiled import split_columns
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .representative import representative

REGISTER_BLOCKS = tuple((TILE_ROWS, *tiles) for tiles in ((2, 2), (1, 3), (3, 1), (1, 2), (2, 1), (1, 1)))
"""Most pixels of a tile, and tiles of pixels and of channels, which eight registers hold."""
MAX_VECTORS = 4
"""Of channels, in a register block of vectors."""
SMALLER_BLOCK = 7
"""Pixels of a register block of so few sums that its outputs are finished beside the next one's products, of
as many as take no longer to load than to multiply by."""
MAX_PIXELS = (112, 224, 448)
"""Of a workgroup: more split filters less often, fewer leave L2 to them."""
MAX_COPIED_PIXELS = (*MAX_PIXELS, 896, 1792)
"""The same of those that workgroups copy in half precision: of more rows fewer are copied twice, and filters
aren't split."""
WORKGROUPS_PER_THREAD = (1, 2, 4)
NEAR_FILTERS_L2_CACHES = 0.6
"""Of the L2 cache, that filters may take there beside images."""

AnyTileSchedule: TypeAlias = (
    MatrixUnitSchedule | Bf16MatrixUnitSchedule | F16MatrixUnitSchedule | Bf16VectorSchedule
)


def matrix_unit_schedules(
    shape: ConvolutionShape, target: CpuTarget, threads: int, kind: type[AnyTileSchedule]
) -> Iterator[AnyTileSchedule]:
    """Those of a kind: of blocks of about equally many outputs for each thread, or of parts of channels."""
    whole, shape = shape, in_lines(shape)
    images, rows, pixels = representative(shape).images, shape.output_rows, shape.output_size[-1]
    counts = (1,) if threads == 1 else tuple(threads * count for count in WORKGROUPS_PER_THREAD)
    register_blocks = _vector_blocks(target) if kind is Bf16VectorSchedule else REGISTER_BLOCKS
    copies = issubclass(kind, HalfMatrixUnitSchedule) and prod(shape.kernel_size) > 1
    most_pixels = MAX_COPIED_PIXELS if copies else MAX_PIXELS
    found: set[AnyTileSchedule] = set()
    for count, most, (most_rows, tiles, channel_tiles) in product(counts, most_pixels, register_blocks):
        if channel_tiles > max(1, ceil_div(shape.output_channels, TILE_LANES)):
            continue
        for divided in {1, count}:
            share = min(most, ceil_div(images * rows * pixels, divided))
            for tile_pixels, pixel_tiles, row_tiles, row_block, pixel_block in (
                *_blocks(rows, pixels, share, tiles, most_rows),
                *_joined_rows(shape),
            ):
                tasks = images * ceil_div(rows, row_block) * ceil_div(pixels, pixel_block)
                blocks = direct_channel_blocks(shape, TILE_LANES * channel_tiles).count
                schedule = kind(
                    tile_pixels=tile_pixels,
                    pixel_tiles=pixel_tiles,
                    row_tiles=row_tiles,
                    channel_tiles=channel_tiles,
                    row_block=row_block,
                    pixel_block=pixel_block,
                    channel_splits=max(1, min(blocks, count // tasks)),
                )
                found.add(schedule)
                if tasks > threads and (splits := _near_filter_splits(shape, schedule, target)) <= blocks:
                    found.add(replace(schedule, channel_splits=max(splits, schedule.channel_splits)))
    fits = (each for each in found if misfit(each, whole.channels_last, target) is None)
    yield from sorted(fits, key=str)


def _near_filter_splits(shape: ConvolutionShape, schedule: AnyTileSchedule, target: CpuTarget) -> int:
    """The parts of the output channels whose filters stay in L2 from one workgroup to the next: what these
    read of images is copied for each part, but filters come from beyond L2 once."""
    filters = schedule.panel_element_bytes(shape) * shape.reduction * shape.output_channels
    return ceil_div(filters, int(NEAR_FILTERS_L2_CACHES * target.l2_bytes))


def _vector_blocks(target: CpuTarget) -> tuple[tuple[int, int, int], ...]:
    """As `REGISTER_BLOCKS`, of vector registers, and smaller ones of two vectors and more."""
    vectors = range(1, MAX_VECTORS + 1)
    most = {each: RegisterBlock.most_rows(each, target) for each in vectors}
    smaller = {each: SMALLER_BLOCK for each in vectors if each > 1 and most[each] > SMALLER_BLOCK}
    return tuple((pixels, 1, each) for blocks in (most, smaller) for each, pixels in blocks.items())


def _joined_rows(shape: ConvolutionShape) -> Iterator[tuple[int, int, int, int, int]]:
    """As `_blocks`, where a single register block may hold all of an image: filters are loaded once."""
    if shape.spatial_rank > 1:
        rows, pixels = shape.output_rows, shape.output_size[-1]
        joined = (rows - 1) * split_columns(shape, pixels) + pixels
        tiles = ceil_div(joined, TILE_ROWS)
        yield ceil_div(joined, tiles), tiles, 1, rows, pixels


def _blocks(
    rows: int, pixels: int, share: int, tiles: int, most_rows: int
) -> Iterator[tuple[int, int, int, int, int]]:
    """For so many tiles of pixels in registers: their pixels, how many lie in a row and in how many rows, and
    the rows and pixels of a workgroup, about `share` of them, of equal blocks of each row."""
    # A row in as few equal blocks as the share allows, each of as few equal tiles as there can be.
    row_share = ceil_div(pixels, ceil_div(pixels, min(share, pixels)))
    for pixel_tiles in (tiles, 1) if rows > 1 else (tiles,):
        row_tiles = tiles // pixel_tiles
        for tiles_of_row in _tiles_of_row(row_share, pixel_tiles, most_rows):
            tile_pixels = ceil_div(row_share, tiles_of_row)
            pixel_block = min(pixels, tiles_of_row * tile_pixels)
            for row_block in _row_blocks(rows, share // pixel_block, row_tiles):
                if row_tiles <= row_block and pixel_tiles * tile_pixels <= pixel_block:
                    yield tile_pixels, pixel_tiles, row_tiles, row_block, pixel_block


def _row_blocks(rows: int, share: int, row_tiles: int) -> Iterator[int]:
    """Rows of a workgroup, in multiples of `row_tiles`: as many as the share allows, and of no less than half
    as many those of which workgroups compute the fewest twice."""
    if share >= rows:
        # Register blocks overlap, for less than what a second workgroup would do again.
        yield rows
        return
    most = max(1, share // row_tiles)
    fewest = min(range(most, most // 2, -1), key=lambda count: ceil_div(rows, row_tiles * count) * count)
    yield from {min(rows, row_tiles * count) for count in (most, fewest)}


def _tiles_of_row(pixels: int, pixel_tiles: int, most_rows: int) -> Iterator[int]:
    """As few tiles as there can be for so many pixels, and, where these overlap, the fewest that don't, if
    they are at most a third more: each output is computed once."""
    least = ceil_div(pixels, most_rows * pixel_tiles) * pixel_tiles
    yield least
    if pixels % least:
        more = range(least + pixel_tiles, 4 * least // 3 + 1, pixel_tiles)
        yield from [count for count in more if pixels % count == 0][:1]
