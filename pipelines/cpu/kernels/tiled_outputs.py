"""Which outputs a workgroup of a kernel on tiles computes, and how its register blocks divide them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.cpu.processor.matrix_unit import TILE_ROWS, MatrixBlock
from iree.winograd.pipelines.cpu.schedules.tiled import TileSchedule
from iree.winograd.pipelines.emission.index import Index, ceildiv
from iree.winograd.pipelines.emission.sized_shape import SizedShape

from .output_blocks import OutputBlock, OutputBlocks


@dataclass(frozen=True)
class TiledOutputs:
    """Rows of outputs of an image, `pixels` of each, in register blocks of tiles of `tile_pixels` neighbours.

    Of images of known sizes these are the schedule's: the last workgroups of an image overlap their
    neighbours. Of others they are what is left, and as many equal tiles as hold a row: what computes an
    output twice computes it alike, and none reads what isn't there.
    """

    sized: SizedShape
    schedule: TileSchedule
    block: OutputBlock
    pixels: Index
    tile_pixels: Index

    @staticmethod
    def of(sized: SizedShape, schedule: TileSchedule, number: Index) -> TiledOutputs:
        """Those of the workgroups of an x coordinate."""
        if not sized.shape.unknown_sizes:
            pixels, tile_pixels = Index(schedule.pixel_block), Index(schedule.tile_pixels)
            return TiledOutputs(sized, schedule, _overlapping(sized, schedule, number), pixels, tile_pixels)
        blocks = OutputBlocks(sized, schedule.without_unit)
        tiles = ceildiv(blocks.row_pixels, TILE_ROWS * schedule.pixel_tiles) * schedule.pixel_tiles
        tile_pixels = ceildiv(blocks.row_pixels, tiles)
        return TiledOutputs(sized, schedule, blocks.outputs(number), blocks.row_pixels, tile_pixels)

    @property
    def number(self) -> Index:
        """That of the image."""
        return self.block.number

    @property
    def rows(self) -> Index:
        return self.block.rows

    @property
    def tiles(self) -> MatrixBlock:
        """Those of a register block."""
        block = self.schedule.block
        return block if self._are_known else replace(block, tile_rows=TILE_ROWS, told_rows=self.tile_pixels)

    @property
    def block_pixels(self) -> Index:
        """Neighbouring outputs of a register block."""
        return self.tile_pixels * self.schedule.pixel_tiles

    @property
    def row_pixels(self) -> Index:
        """Outputs of a register block in each of its rows."""
        return self.block_pixels.minimum(self.pixels) if self._are_known else self.block_pixels

    @property
    def blocks_of_row(self) -> Index:
        """Register blocks of a row, or of as many as a register block has."""
        return ceildiv(self.pixels, self.row_pixels)

    @property
    def register_blocks(self) -> Index:
        """Those of all rows."""
        return ceildiv(self.rows, self.schedule.block_rows) * self.blocks_of_row

    def row_of_tile(self, row_tile: int) -> Index:
        """Of a tile in its register block, whose first row exists."""
        return Index(row_tile) if self._are_known else Index(row_tile).minimum(self.rows - 1)

    def pixel_of_tile(self, pixel_tile: int) -> Index:
        """The first output of a tile in its register block."""
        return self.first_of_tile(self.tile_pixels * pixel_tile)

    def first_of_tile(self, sums: Index) -> Index:
        """The same of the tile whose sums begin at those of a pixel: in a short row tiles overlap, too."""
        return sums if self._are_known else sums.minimum(self.pixels - self.tile_pixels)

    def moved_in(self, row: Index, pixel: Index) -> tuple[Index, Index]:
        """The place of an output in a register block, or of the last one that there is in its stead."""
        return (
            (row, pixel) if self._are_known else (row.minimum(self.rows - 1), pixel.minimum(self.pixels - 1))
        )

    def position(self, row: Index, pixel: Index) -> tuple[Index, ...]:
        """Of an output of the workgroup in its image."""
        rank = self.sized.shape.spatial_rank
        position = (
            *(Index(0),) * (rank - 2),
            self.block.first_row + row,
            self.block.first_pixel + pixel,
        )
        return position[-rank:]

    @property
    def _are_known(self) -> bool:
        return not self.sized.shape.unknown_sizes


def _overlapping(sized: SizedShape, schedule: TileSchedule, number: Index) -> OutputBlock:
    """The block of a workgroup, of images of known sizes; the last ones overlap their neighbours."""
    shape = sized.shape
    pixel_blocks = ceil_div(shape.output_size[-1], schedule.pixel_block)
    row_blocks = ceil_div(shape.output_rows, schedule.row_block)
    image = Index(0) if shape.batch == 1 else number // (row_blocks * pixel_blocks)
    first_row = number // pixel_blocks % row_blocks * schedule.row_block
    first_pixel = number % pixel_blocks * schedule.pixel_block
    return OutputBlock(
        image,
        first_row.minimum(shape.output_rows - schedule.row_block),
        Index(schedule.row_block),
        first_pixel.minimum(shape.output_size[-1] - schedule.pixel_block),
    )
