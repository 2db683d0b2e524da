"""What channels-first images cost: kernels transpose parts of them, or dispatches transpose all of them.

Threads that write parts of one take cache lines from each other.
"""

from __future__ import annotations

from math import gcd, prod

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.cpu.processor.strips import (
    STRIP_BLOCK,
    StripExtents,
    input_strip,
    output_strip,
)
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.emission.vectors import vector_width_for
from iree.winograd.pipelines.machines.model import CpuMachine
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .rates import SHARED_LINE_SECONDS, SHUFFLE_CYCLES
from .workers import Workers, complete

BLOCK_PIXELS = 16
"""Of an image, that are transposed together with as many channels."""


def read_tile_cycles(shape: ConvolutionShape, lanes: int, tile_block: int) -> float:
    """Of reading a tile of a vector of channels, beyond those of a channels-last one."""
    if not shape.input_channels_first:
        return 0.0
    outputs = shape.decomposition.output_tile[-1]
    beside = shape.decomposition.alpha[-1] - outputs
    return _strip_tile_cycles(input_strip(shape), (outputs, beside, shape.input_size[-1]), lanes, tile_block)


def written_tile_cycles(shape: ConvolutionShape, lanes: int, tile_block: int) -> float:
    """The same of writing a tile of outputs."""
    if not shape.output_channels_first:
        return 0.0
    outputs = shape.decomposition.output_tile[-1]
    return _strip_tile_cycles(output_strip(shape), (outputs, 0, shape.output_size[-1]), lanes, tile_block)


def _strip_tile_cycles(strip: StripExtents, line: tuple[int, int, int], lanes: int, tile_block: int) -> float:
    """Of a tile's part of a strip; `line` has the columns of a tile, beside tiles, and of the image."""
    of_tile, beside, size = line
    tiles = min(strip.tiles, tile_block)
    columns = min(tiles * of_tile + beside, size)
    return strip.lines * transposition_cycles(lanes, STRIP_BLOCK, lanes) * columns / (STRIP_BLOCK * tiles)


def shared_line_seconds(shape: ConvolutionShape, tile_block: int, workers: Workers) -> float:
    """Of the cache lines where what a block of tiles writes of a channel ends, and its neighbours go on.

    A block that ends within a row of tiles ends within all lines of the image that the row has.
    """
    is_whole = tile_block % prod(shape.tiles_per_image) == 0
    if not shape.output_channels_first or workers.count == 1 or is_whole:
        return 0.0
    row_tiles, outer = shape.tiles_per_image[-1], shape.decomposition.output_tile[:-1]
    begins_row = gcd(tile_block, row_tiles) / row_tiles
    # The lines of neighbouring rows of tiles follow one another.
    ends = 2 * (begins_row * prod(outer[:-1]) + (1 - begins_row) * prod(outer))
    return ends * SHARED_LINE_SECONDS


def transposed_pixel_cycles(channels: int, lanes: int) -> float:
    """Of a pixel among neighbours that are transposed with all these channels."""
    return transposition_cycles(channels, BLOCK_PIXELS, lanes) / BLOCK_PIXELS


def interleaved_element_cycles(channels: int, lanes: int) -> float:
    """Of an element that `copy_interleaved` writes."""
    return SHUFFLE_CYCLES * (channels - 1) / lanes


def transposition_cycles(lines: int, length: int, widest: int) -> float:
    """Of `copy_transposed` on so many lines of `length` elements, in vectors of at most `widest`."""
    count, width = vector_width_for(lines, widest), min(widest, 1 << (length - 1).bit_length())
    blocks = ceil_div(lines, count) * ceil_div(length, width)
    side = min(count, width)
    # Lines are joined to whole vectors before the exchange, or taken apart after it.
    apart = abs(count - width) if count >= width else width
    return SHUFFLE_CYCLES * blocks * (side * (side - 1).bit_length() + apart)


def transposition_seconds(
    shape: ConvolutionShape, scheduled: ConvolutionShape, target: CpuTarget, machine: CpuMachine, threads: int
) -> float:
    """Of the dispatches that transpose images of `shape` that kernels get as `scheduled`, channels last."""
    batch, width = shape.images, target.vector_width
    images = []
    if shape.input_channels_first != scheduled.input_channels_first:
        images.append((shape.input_channels, prod(shape.input_size), shape.image_bytes))
    if shape.output_channels_first != scheduled.output_channels_first:
        images.append((shape.output_channels, prod(shape.output_size), shape.result_bytes))
    seconds = 0.0
    for channels, pixels, size in images:
        workers = Workers(machine, threads, ceil_div(batch * pixels, BLOCK_PIXELS))
        cycles = batch * pixels * transposed_pixel_cycles(channels, width)
        moved = 2 * batch * size / workers.shared_bandwidth(batch * size)
        each = (cycles / machine.clock + moved) / workers.count
        seconds += sum(complete({"transposition": each}, workers).values())
    return seconds
