"""The schedules of a weight gradient: those that its default one is predicted from, and worth measuring."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.cpu.kernels.kernel_of import misfit
from iree.winograd.pipelines.cpu.processor.product import RegisterBlock
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.schedules.weight_gradient import WeightGradientSchedule
from iree.winograd.pipelines.emission.vectors import vector_width_for
from iree.winograd.pipelines.problems.shape import ConvolutionShape

TILE_BLOCKS = (64, 128)
SLICED_TILE_BLOCKS = (16, 32, 64)
"""Those of a workgroup that transforms them itself: L2 holds them beside its sums, L1 those of an element."""
BLOCKS_OF_SLICE = 64
"""At most: sums over so many blocks, and over slices at last, round less than one over all blocks."""
REGISTER_VECTORS = (1, 2, 4)
BLOCKS = (1, 2, 4, 8, 16)
"""Register blocks along one side of what a workgroup computes."""


def weight_gradient_schedules(
    shape: ConvolutionShape, target: CpuTarget, threads: int
) -> Iterator[WeightGradientSchedule]:
    """Those of the register block that wastes least."""
    width = vector_width_for(shape.group_outputs, target.vector_width)
    rows, vectors = _register_block(shape, width, target)
    for row_blocks, channel_blocks, (tile_block, slices) in product(
        BLOCKS, BLOCKS, _tile_blocks(shape, threads)
    ):
        schedule = WeightGradientSchedule(
            vector_width=width,
            tile_block=tile_block,
            row_block=rows * row_blocks,
            channel_block=vectors * width * channel_blocks,
            register_rows=rows,
            register_vectors=vectors,
            tile_slices=slices,
        )
        if misfit(schedule, shape, target) is None:
            yield schedule


def _tile_blocks(shape: ConvolutionShape, threads: int) -> list[tuple[int, int | None]]:
    """Tiles of a block, and slices: None where dispatches of their own transform all tiles.

    Of sizes known only at run time these don't know how much memory they need. Slices are then as many as
    for an image of the expected size, or a batch that is known.
    """
    is_dynamic = shape.tiles is None or bool(shape.unknown_sizes)
    tiles = prod(shape.tiles_per_image) if shape.tiles is None else shape.tiles
    found: list[tuple[int, int | None]] = []
    if not is_dynamic:
        found += [(min(each, tiles), None) for each in TILE_BLOCKS]
    if is_dynamic or shape.transform_size > 1:
        # Equal blocks, equally many for each slice.
        found += [
            (ceil_div(tiles, slices * ceil_div(tiles, slices * most)), slices)
            for most in SLICED_TILE_BLOCKS
            for slices in (_slices(tiles, most, 1), _slices(tiles, most, threads))
            if slices <= tiles
        ]
    return list(dict.fromkeys(found))


def _slices(tiles: int, tile_block: int, threads: int) -> int:
    """The least that threads share equally, of at most `BLOCKS_OF_SLICE` blocks each."""
    return threads * ceil_div(tiles, threads * tile_block * BLOCKS_OF_SLICE)


def _register_block(shape: ConvolutionShape, width: int, target: CpuTarget) -> tuple[int, int]:
    """Rows and vectors of the block that takes least for all channels, those that overlap included."""
    inputs, outputs = shape.group_inputs, shape.group_outputs

    def cycles(block: tuple[int, int]) -> float:
        rows, vectors = block
        passes = ceil_div(inputs, rows) * ceil_div(outputs, vectors * width)
        # Two multiply-adds or loads a cycle, four cycles until a sum can be added to, and the loop's own.
        return passes * (max(rows * vectors / 2, (rows + vectors) / 2, 4) + 1)

    blocks = [
        (rows, vectors)
        for vectors in REGISTER_VECTORS
        if vectors * width <= outputs
        for rows in _rows(inputs, RegisterBlock.most_rows(vectors, target))
    ]
    return min(blocks, key=cycles)


def _rows(inputs: int, most: int) -> list[int]:
    """Of a register block, at most so many: those that divide the input channels, if they are half as many.

    Blocks of channels that overlap are fewer, and each reads all tiles of the other operand.
    """
    rows = range(1, min(inputs, most) + 1)
    dividing = [each for each in rows if inputs % each == 0 and 2 * each >= len(rows)]
    return dividing or list(rows)
