"""The layout of what passes between the kernels of a gradient of a filter: whole blocks of tiles.

With `b` a block of tiles, `a` a product, `r` views, then the channels of a group, and `k` an output channel
of a group:

    transformed images      [b, a*g + group, tile within b, r]    tiles that don't exist are zero
    transformed gradients   [b, a*g + group, tile within b, k]    alike
    products                [b, a*g + group, r, k]

with `r` and `k` padded to whole blocks of the products, of which nothing reads the padding. Where there is
none, gradients are packed as they are if tiles have one output, and so are images of pointwise convolutions.
Schedules that read in place pack neither.
"""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.emission.index import Index, ceildiv
from iree.winograd.pipelines.emission.work import Sizes
from iree.winograd.pipelines.gpu.device.memory import QUAD
from iree.winograd.pipelines.gpu.schedules.weight_gradient import GpuWeightGradientSchedule
from iree.winograd.pipelines.problems.shape import WeightGradientShape

from .convolution import ConvolutionPacking


@dataclass(frozen=True)
class WeightGradientPacking(ConvolutionPacking):
    """The packed layouts of a gradient of a filter for a schedule of its products."""

    shape: WeightGradientShape
    schedule: GpuWeightGradientSchedule

    def tile_blocks(self, sizes: Sizes) -> Index:
        """Blocks of the tiles of all images."""
        return ceildiv(self.tiles(sizes), self.schedule.tile_block)

    def padded_tiles(self, sizes: Sizes) -> Index:
        """Tiles of all blocks."""
        return self.tile_blocks(sizes) * self.schedule.tile_block

    def are_whole(self, sizes: Sizes) -> bool:
        """Whether all blocks of tiles are known to be full."""
        tiles = self.tiles(sizes).known
        return tiles is not None and tiles % self.schedule.tile_block == 0

    @property
    def products(self) -> int:
        """A*g, the number of matrix products of a block of tiles."""
        return self.shape.transform_size * self.shape.groups

    @property
    def padded_channels(self) -> int:
        return ceil_div(self.group_channels, QUAD) * QUAD

    @property
    def reduction(self) -> int:
        return self.views * self.padded_channels

    @property
    def padded_rows(self) -> int:
        """`r` in whole blocks."""
        return ceil_div(self.reduction, self.schedule.block_rows) * self.schedule.block_rows

    @property
    def padded_filters(self) -> int:
        """`k` in whole blocks."""
        return ceil_div(self.group_outputs, self.schedule.block_columns) * self.schedule.block_columns

    @property
    def images_are_packed(self) -> bool:
        """Whether the images are what would be packed of them, or nothing would be."""
        if self.schedule.reads_in_place:
            return True
        shape = self.shape
        is_pointwise = shape.transform_size == self.views == 1 and shape.output_size == shape.input_size
        return is_pointwise and self._has_whole_tiles and self.group_channels == self.padded_rows

    @property
    def gradients_are_packed(self) -> bool:
        """Whether the gradients of outputs are what would be packed of them, or nothing would be."""
        if self.schedule.reads_in_place:
            return True
        is_direct = self.shape.transform_size == 1
        return is_direct and self._has_whole_tiles and self.group_outputs == self.padded_filters

    @property
    def _has_whole_tiles(self) -> bool:
        """Whether all blocks of tiles are known to be full, of all channels."""
        tiles = None if self.shape.unknown_sizes else self.shape.tiles
        return self.shape.groups == 1 and tiles is not None and tiles % self.schedule.tile_block == 0

    @property
    def adds_blocks_last(self) -> bool:
        """Whether what blocks of tiles gave is added where the taps are written, of which each is one sum."""
        return self.shape.transform_size == 1

    @property
    def image_extents(self) -> tuple[int, int, int]:
        """The transformed images of a block of tiles."""
        return (self.products, self.schedule.tile_block, self.padded_rows)

    @property
    def gradient_extents(self) -> tuple[int, int, int]:
        """The transformed gradients of outputs of a block of tiles."""
        return (self.products, self.schedule.tile_block, self.padded_filters)

    @property
    def product_extents(self) -> tuple[int, int, int]:
        """The products of a block of tiles."""
        return (self.products, self.padded_rows, self.padded_filters)

    @property
    def row_blocks(self) -> int:
        """Blocks of rows."""
        return self.padded_rows // self.schedule.block_rows

    @property
    def column_blocks(self) -> int:
        """Blocks of columns."""
        return self.padded_filters // self.schedule.block_columns

    def tile_place(self, tile: Index) -> tuple[Index, Index]:
        """The block of a tile, and its number there."""
        return tile // self.schedule.tile_block, tile % self.schedule.tile_block
