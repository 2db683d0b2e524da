"""The schedules of kernels on tiles of bf16, and what their workgroups read and need of memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.cpu.processor.matrix_unit import (
    ROUNDED_PRODUCTS,
    ROW_BYTES,
    TILE_BYTES,
    TILE_CHANNELS,
    TILE_LANES,
    TILE_ROWS,
    MatrixBlock,
)
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.emission.numbers.bf16 import BF16
from iree.winograd.pipelines.problems.schedule import Schedule
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .direct import DirectSchedule, Extent, input_columns


@dataclass(frozen=True)
class TileSchedule(Schedule, ABC):
    """How one workgroup of a kernel on tiles works through its rows of outputs.

    `row_block` rows of `pixel_block` outputs share each block of filters; rows are those of `in_lines`. A
    register block is `pixel_tiles` tiles of `tile_pixels` neighbouring outputs in each of `row_tiles` rows,
    by `channel_tiles` tiles of 16 output channels. One of more outputs than a row of the workgroup has is of
    all its rows. `channel_splits` is as in `WinogradSchedule`.

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
    def block_pixels(self) -> int:
        """Neighbouring outputs of a register block."""
        return self.pixel_tiles * self.tile_pixels

    @property
    def joins_rows(self) -> bool:
        """Whether tiles go on in the next row: what lies in the padding between two rows is summed, too."""
        return self.block_pixels > self.pixel_block

    def joins_open_rows(self, shape: ConvolutionShape) -> bool:
        """Whether they do of images of unknown sizes, whatever the schedule: where a row is expected to be no
        longer than a tile. In longer ones what lies between takes longer to leave out than it gains."""
        return False

    def joins(self, shape: ConvolutionShape) -> bool:
        """Whether they do of such images, or by the schedule."""
        return self.joins_rows or self.joins_open_rows(shape)

    def takes_chunks_first(self, shape: ConvolutionShape) -> bool:
        """Whether all taps of a tile of channels are summed before the next channels."""
        return self.joins(shape)

    @property
    def block_rows(self) -> int:
        """Rows of which a register block has outputs."""
        return self.row_block if self.joins_rows else self.row_tiles

    @property
    def row_pixels(self) -> int:
        """Outputs of a register block in each of them."""
        return min(self.block_pixels, self.pixel_block)

    @property
    @abstractmethod
    def part_products(self) -> Sequence[tuple[int, int]]:
        """The parts of both operands that are multiplied for each product, one after the other."""

    @property
    def parts(self) -> int:
        """Numbers of bf16 that an operand's number is the sum of."""
        return 1 + max(part for part, _ in self.part_products)

    @abstractmethod
    def panel_element_bytes(self, shape: ConvolutionShape) -> int:
        """Of a filter, as the kernel reads it."""

    def joined_pixels(self, shape: ConvolutionShape) -> int:
        """Outputs of a workgroup, from the first to the last, if rows had as many as columns of the input."""
        return (self.row_block - 1) * split_columns(shape, self.pixel_block) + self.pixel_block

    def row_taps(self, shape: ConvolutionShape) -> int:
        """Taps of a row of which each is summed in tiles of its own."""
        return shape.kernel_size[-1]

    def taps(self, shape: ConvolutionShape) -> int:
        """Those of all rows."""
        return prod(shape.kernel_size[:-1]) * self.row_taps(shape)

    def chunks(self, shape: ConvolutionShape) -> int:
        """Tiles of a tap's input channels: the last one's, past the last channel, are zeros."""
        return split_chunks(shape)

    def reduction_tiles(self, shape: ConvolutionShape) -> int:
        """Tiles of the reduction dimension."""
        return self.taps(shape) * self.chunks(shape)

    @abstractmethod
    def workgroup_bytes(self, shape: ConvolutionShape, target: CpuTarget) -> int:
        """The memory of a workgroup."""

    def _finishing_bytes(self) -> int:
        """The sums of a register block, and the shapes of tiles."""
        sums = self.block.row_tiles * self.channel_tiles * TILE_BYTES
        return sums + 2 * self.channel_tiles * ROW_BYTES

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
class Bf16TileSchedule(TileSchedule, ABC):
    """That of a kernel for numbers of half precision, to which those of f32 are rounded.

    The input of a workgroup is read where it is, or lies in the L2 cache between zeros; filters are rounded,
    or split into parts, beforehand.
    """

    @property
    def multiplied_type(self) -> str:
        return BF16.name

    @property
    def part_products(self) -> Sequence[tuple[int, int]]:
        return ROUNDED_PRODUCTS

    def panel_element_bytes(self, shape: ConvolutionShape) -> int:
        return BF16.bytes * self.parts

    def joins_open_rows(self, shape: ConvolutionShape) -> bool:
        return bool(shape.unknown_sizes) and may_join_rows(shape) and shape.output_size[-1] <= TILE_ROWS

    def row_taps(self, shape: ConvolutionShape) -> int:
        return shape.kernel_size[-1] // merged_taps(shape)

    def chunks(self, shape: ConvolutionShape) -> int:
        """Those of merged taps together."""
        return ceil_div(merged_taps(shape) * shape.input_channels, TILE_CHANNELS)

    def workgroup_bytes(self, shape: ConvolutionShape, target: CpuTarget) -> int:
        """The input beside. Filters are read where they are, and without the unit inputs are as with it."""
        columns = split_columns(shape, self.pixel_block)
        row = columns * split_chunks(shape) * ROW_BYTES
        if merged_taps(shape) > 1:
            row = self.merged_row(shape, self.pixel_block) * BF16.bytes
        sums = self.block.row_tiles * self.channel_tiles * TILE_BYTES
        return self.staged_rows(shape) * self.parts * row + self._finishing_bytes() + sums

    def staged_rows(self, shape: ConvolutionShape) -> int:
        """Rows of the copied input, with those that only sums read that aren't outputs."""
        if self.joins_open_rows(shape):
            beyond = self.block.row_tiles
            return split_rows(shape, self.row_block) + ceil_div(
                beyond, split_columns(shape, self.pixel_block)
            )
        beyond = self.block_pixels - self.joined_pixels(shape) if self.joins_rows else 0
        return split_rows(shape, self.row_block) + ceil_div(beyond, split_columns(shape, self.pixel_block))

    def merged_row(self, shape: ConvolutionShape, pixel_block: Extent) -> Extent:
        """Elements of a row of the input of merged taps that so many outputs read, those that fill the last
        tile included."""
        columns = split_columns(shape, pixel_block)
        return columns * shape.input_channels + self.chunks(shape) * TILE_CHANNELS


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


def may_join_rows(shape: ConvolutionShape) -> bool:
    """Whether tiles of numbers of bf16 may go on in the next row: in a copy with zeros between rows."""
    return (
        shape.pads and merged_taps(shape) == 1 and shape.spatial_rank > 1 and set(shape.strides[-2:]) == {1}
    )


def input_step(shape: ConvolutionShape, dimension: int) -> int:
    """Elements of the input from one to the next that is split: a single tap leaves out what strides skip."""
    return shape.decomposition.step[dimension] if shape.kernel_size[dimension] == 1 else 1


def split_rows(shape: ConvolutionShape, row_block: Extent) -> Extent:
    """Rows of the input that so many rows of outputs read."""
    if len(shape.kernel_size) == 1:
        return row_block
    decomposition = shape.decomposition
    last_tap = (shape.kernel_size[-2] - 1) * decomposition.dilation[-2]
    return ((row_block - 1) * decomposition.step[-2] + last_tap) // input_step(shape, -2) + 1


def split_columns(shape: ConvolutionShape, pixel_block: Extent) -> Extent:
    """Elements of the input's last dimension that so many outputs of a row read."""
    return (input_columns(shape, pixel_block) - 1) // input_step(shape, -1) + 1
