"""How workgroups of kernels on tiles of bf16 divide a convolution, as predictions of their time count it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.cpu.processor.matrix_unit import TILE_ROWS
from iree.winograd.pipelines.cpu.schedules.channel_blocks import ChannelBlocks
from iree.winograd.pipelines.cpu.schedules.direct import direct_channel_blocks
from iree.winograd.pipelines.cpu.schedules.tiled import TileSchedule, split_columns, split_rows
from iree.winograd.pipelines.problems.shape import ConvolutionShape


@dataclass(frozen=True)
class TiledWork:
    """The work of one workgroup, and how many there are."""

    shape: ConvolutionShape
    """One that is `in_lines`."""
    schedule: TileSchedule

    @property
    def workgroups(self) -> int:
        """Blocks of outputs of all images, by parts of the output channels."""
        shape, schedule = self.shape, self.schedule
        rows = ceil_div(shape.output_rows, schedule.row_block)
        return shape.images * rows * ceil_div(shape.output_size[-1], schedule.pixel_block) * self.parts

    @cached_property
    def channel_blocks(self) -> int:
        """Of a workgroup."""
        return self._blocks.part_size(min(self.schedule.channel_splits, self._blocks.count))

    @property
    def parts(self) -> int:
        """Of the output channels."""
        return ceil_div(self._blocks.count, self.channel_blocks)

    @property
    def register_blocks(self) -> int:
        """Of a block of channels."""
        schedule = self.schedule
        if schedule.joins_open_rows(self.shape):
            return ceil_div(schedule.joined_pixels(self.shape), TILE_ROWS * schedule.block.row_tiles)
        rows = ceil_div(schedule.row_block, schedule.block_rows)
        return rows * ceil_div(schedule.pixel_block, schedule.row_pixels)

    @property
    def tile_rows(self) -> int:
        """Those of a tile: of images of unknown sizes whose rows are joined as few as hold all of them."""
        schedule = self.schedule
        if schedule.joins_open_rows(self.shape):
            tiles = self.register_blocks * schedule.block.row_tiles
            return ceil_div(schedule.joined_pixels(self.shape), tiles)
        return schedule.block.tile_rows

    @property
    def elements(self) -> int:
        """Of the image, each with all channels, that a workgroup copies or splits."""
        return split_rows(self.shape, self.schedule.row_block) * split_columns(
            self.shape, self.schedule.pixel_block
        )

    @property
    def filter_bytes(self) -> int:
        """Of the filters that a workgroup reads."""
        element_bytes = self.schedule.panel_element_bytes(self.shape)
        return element_bytes * self.shape.reduction * self.channel_blocks * self.schedule.channel_block

    @cached_property
    def _blocks(self) -> ChannelBlocks:
        return direct_channel_blocks(self.shape, self.schedule.channel_block)
