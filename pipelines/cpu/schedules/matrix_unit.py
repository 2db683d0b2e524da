"""The schedules of the matrix unit's kernels, and the memory that its workgroups need."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.cpu.processor.matrix_unit import (
    PARTS,
    PRODUCTS,
    ROW_BYTES,
    TILE_BYTES,
    TILE_CHANNELS,
    TILE_LANES,
    MatrixBlock,
)
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.emission.numbers.bf16 import BF16
from iree.winograd.pipelines.problems.schedule import Schedule
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .direct import DirectSchedule, direct_workgroup_bytes, input_columns


@dataclass(frozen=True)
class TileSchedule(Schedule):
    """How one workgroup of a kernel on the matrix unit works through its rows of outputs.

    `row_block` rows of `pixel_block` outputs share each block of filters; rows are those of `in_lines`. A
    register block is `pixel_tiles` tiles of `tile_pixels` neighbouring outputs in each of `row_tiles` rows,
    by `channel_tiles` tiles of 16 output channels. `channel_splits` is as in `WinogradSchedule`.

    Raises ValueError for sizes that are not positive.
    """

    tile_pixels: int
    pixel_tiles: int
    row_tiles: int
    channel_tiles: int
    row_block: int
    pixel_block: int
    channel_splits: int = 1

    @property
    def block(self) -> MatrixBlock:
        """The tiles of a register block."""
        return MatrixBlock(self.tile_pixels, self.pixel_tiles * self.row_tiles, self.channel_tiles)

    @property
    def vector_width(self) -> int:
        """Sums of a row of a tile."""
        return TILE_LANES

    @property
    def channel_block(self) -> int:
        """Output channels of one pass over the pixels."""
        return TILE_LANES * self.channel_tiles

    @property
    def without_unit(self) -> DirectSchedule:
        """What computes the same outputs in the same blocks without a matrix unit."""
        return DirectSchedule(
            vector_width=TILE_LANES,
            register_pixels=min(self.pixel_block, PIXELS_WITHOUT_UNIT),
            register_vectors=self.channel_tiles,
            row_block=self.row_block,
            pixel_block=self.pixel_block,
            channel_splits=self.channel_splits,
        )


@dataclass(frozen=True)
class MatrixUnitSchedule(TileSchedule):
    """That of the matrix unit's kernel for numbers of f32.

    The input of a workgroup, and the filters of a block of channels, are split into parts in the L2 cache.
    """

    kind = "matrix-unit"

    @property
    def summed_block(self) -> int:
        """A sixth of a tile's channels: these are summed by themselves, six times, and added to those before,
        which is what rounds most."""
        return TILE_CHANNELS // len(PRODUCTS)


@dataclass(frozen=True)
class Bf16MatrixUnitSchedule(TileSchedule):
    """That of the matrix unit's kernel for numbers of bf16, to which those of f32 are rounded.

    The input of a workgroup is read where it is, or lies in the L2 cache between zeros; filters are rounded
    beforehand.
    """

    kind = "bf16-matrix-unit"

    @property
    def summed_block(self) -> int:
        """Channels of a tile: these are summed by themselves, and added to those before."""
        return TILE_CHANNELS

    @property
    def multiplied_type(self) -> str:
        return "bf16"


PIXELS_WITHOUT_UNIT = 4
"""Of a register block there: little code, for what hardly ever runs."""


def split_chunks(shape: ConvolutionShape) -> int:
    """Tiles of input channels: the last one's, past the last channel, are zeros."""
    return ceil_div(shape.input_channels, TILE_CHANNELS)


def merged_taps(shape: ConvolutionShape) -> int:
    """Neighbouring taps that are summed as channels of one, of numbers of bf16: those of a row whose channels
    would fill tiles by less than a half."""
    merges = 2 * shape.input_channels <= TILE_CHANNELS and shape.dilations[-1] == 1
    return shape.kernel_size[-1] if merges else 1


def merged_chunks(shape: ConvolutionShape) -> int:
    """Tiles of input channels, those of merged taps together."""
    return ceil_div(merged_taps(shape) * shape.input_channels, TILE_CHANNELS)


def merged_row(shape: ConvolutionShape, pixel_block: int) -> int:
    """Elements of a row of the input of merged taps, those that fill the last tile included."""
    columns = split_columns(shape, pixel_block)
    return columns * shape.input_channels + merged_chunks(shape) * TILE_CHANNELS


def input_step(shape: ConvolutionShape, dimension: int) -> int:
    """Elements of the input from one to the next that is split: a single tap leaves out what strides skip."""
    return shape.decomposition.step[dimension] if shape.kernel_size[dimension] == 1 else 1


def split_rows(shape: ConvolutionShape, row_block: int) -> int:
    """Rows of the input that so many rows of outputs read."""
    if len(shape.kernel_size) == 1:
        return 1
    decomposition = shape.decomposition
    last_tap = (shape.kernel_size[-2] - 1) * decomposition.dilation[-2]
    return ((row_block - 1) * decomposition.step[-2] + last_tap) // input_step(shape, -2) + 1


def split_columns(shape: ConvolutionShape, pixel_block: int) -> int:
    """Elements of the input's last dimension that so many outputs of a row read."""
    return (input_columns(shape, pixel_block) - 1) // input_step(shape, -1) + 1


def matrix_unit_workgroup_bytes(schedule: TileSchedule, shape: ConvolutionShape, target: CpuTarget) -> int:
    """The memory of a workgroup: parts of its input and of the filters of a block, sums of a register block,
    the shapes of tiles, and what a workgroup takes that does without the unit.

    Filters of bf16 are read where they are, and without the unit such input is read as with it.
    """
    pixels = split_rows(shape, schedule.row_block) * split_columns(shape, schedule.pixel_block)
    chunks = split_chunks(shape)
    sums = schedule.block.row_tiles * schedule.channel_tiles * TILE_BYTES
    waiting = 2 * schedule.channel_tiles * ROW_BYTES
    if isinstance(schedule, Bf16MatrixUnitSchedule):
        staged = pixels * chunks * ROW_BYTES
        if merged_taps(shape) > 1:
            row = merged_row(shape, schedule.pixel_block)
            staged = split_rows(shape, schedule.row_block) * row * BF16.bytes
        return staged + sums + waiting
    inputs = pixels * chunks * PARTS * ROW_BYTES
    filters = prod(shape.kernel_size) * chunks * PARTS * schedule.channel_tiles * TILE_BYTES
    without = direct_workgroup_bytes(shape, schedule.row_block, schedule.pixel_block, target)
    return inputs + filters + sums + waiting + without
