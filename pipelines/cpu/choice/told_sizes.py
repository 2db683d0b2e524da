"""By which blocks kernels divide images of a size that they are told, which they weren't chosen for."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.cpu.kernels.output_blocks import even_block
from iree.winograd.pipelines.cpu.schedules.depthwise import SHORT_ROW, DepthwiseSchedule
from iree.winograd.pipelines.cpu.schedules.direct import DirectSchedule, in_lines
from iree.winograd.pipelines.cpu.schedules.winograd import WinogradSchedule
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .representative import representative


def told_direct(shape: ConvolutionShape, schedule: DirectSchedule) -> DirectSchedule:
    """As `OutputBlocks` divides them.

    Rows shorter than a register block are summed by one that is as short: gathering several takes as long.
    """
    line = in_lines(shape)
    rows, row, registers = line.output_rows, line.output_size[-1], schedule.register_pixels
    blocks = ceil_div(row, schedule.pixel_block)
    if schedule.block_multiple is not None and rows == 1:
        wanted = ceil_div(blocks, schedule.block_multiple) * schedule.block_multiple
        blocks = min(ceil_div(row, registers), wanted)
    even = ceil_div(ceil_div(row, blocks), registers) * registers
    return replace(
        schedule,
        register_pixels=min(registers, row),
        row_block=_even(rows, schedule.row_block, schedule.block_multiple),
        pixel_block=min(even, schedule.pixel_block, row),
    )


def told_depthwise(shape: ConvolutionShape, schedule: DepthwiseSchedule) -> DepthwiseSchedule:
    """As `DepthwiseKernel` divides them, whose register blocks are narrower where rows are short."""
    row, registers = shape.output_size[-1], schedule.register_pixels
    if row < registers:
        registers = SHORT_ROW if min(row, registers - 1) >= SHORT_ROW else 1
    rows = _even(shape.output_rows, schedule.row_block, schedule.block_multiple or 1)
    return replace(schedule, register_pixels=registers, row_block=rows)


def told_tiles(shape: ConvolutionShape, schedule: WinogradSchedule) -> WinogradSchedule | None:
    """As `WinogradKernel` divides them; None for one whose filters or images are transformed apart."""
    if schedule.input_block is not None or schedule.filter_block is not None:
        return None
    tiles = representative(shape).images * prod(shape.tiles_per_image)
    block = _even(tiles, schedule.tile_block, schedule.block_multiple)
    registers = schedule.register_tiles
    return replace(schedule, tile_block=ceil_div(block, registers) * registers)


def _even(count: int, most: int, block_multiple: int | None) -> int:
    """Of `count` those of a block: as many as there are to be at most, or as `even_block` has them."""
    if block_multiple is None:
        return min(count, most)
    block = even_block(Index(count), most, block_multiple).known
    assert block is not None
    return block
