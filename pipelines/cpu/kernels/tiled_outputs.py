"""Which outputs a workgroup of a kernel on tiles computes, and how its register blocks divide them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.cpu.processor.matrix_unit import TILE_ROWS, MatrixBlock
from iree.winograd.pipelines.cpu.schedules.tiled import TileSchedule, split_columns
from iree.winograd.pipelines.emission.control_flow import loop
from iree.winograd.pipelines.emission.index import Index, ceildiv, select_index
from iree.winograd.pipelines.emission.sized_shape import SizedShape

from .output_blocks import OutputBlock, OutputBlocks

_ROWS_OF_BLOCK = 3
"""Rows of a line that is joined of which outputs are fetched ahead from where they are."""
Finish = Callable[[Index, Index, Index, Index], None]


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
        block, pixels = blocks.outputs(number), blocks.row_pixels
        if schedule.joins_open_rows(sized.shape):
            joined = (block.rows - 1) * split_columns(sized.shape, pixels) + pixels
            tile_pixels = _equal_tiles(joined, schedule.block.row_tiles)
            return JoinedOutputs(sized, schedule, block, pixels, tile_pixels)
        tile_pixels = _equal_tiles(pixels, schedule.pixel_tiles)
        return TiledOutputs(sized, schedule, block, pixels, tile_pixels)

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
    def block_rows(self) -> int:
        """Rows of which a register block has outputs."""
        return self.schedule.block_rows

    @property
    def row_pixels(self) -> Index:
        """Outputs of a register block in each of them."""
        return self.block_pixels.minimum(self.pixels) if self._are_known else self.block_pixels

    @property
    def lines(self) -> Index:
        """What register blocks divide: rows."""
        return self.rows

    @property
    def line_pixels(self) -> Index:
        """Outputs of each."""
        return self.pixels

    @property
    def blocks_of_row(self) -> Index:
        """Register blocks of a row, or of as many as a register block has."""
        return ceildiv(self.line_pixels, self.row_pixels)

    @property
    def register_blocks(self) -> Index:
        """Those of all rows."""
        return ceildiv(self.lines, self.block_rows) * self.blocks_of_row

    def place_of_tile(self, tile: int) -> tuple[Index, Index]:
        """The row of a tile in its register block, whose first row exists, and its first output there."""
        row_tile, pixel_tile = divmod(tile, self.schedule.pixel_tiles)
        row = Index(row_tile) if self._are_known else Index(row_tile).minimum(self.rows - 1)
        return row, self._first_of_tile(self.tile_pixels * pixel_tile)

    def for_each(self, row: Index, pixel: Index, finish: Finish, after: Callable[[], None]) -> None:
        """Emits what becomes of the sums of a register block, from an output of the workgroup on.

        `finish` takes the number of a pixel's sums, that of the pixel in a row of the block, and its row and
        place in the workgroup; `after` comes after each tile.
        """
        row_sums = self.block_pixels
        if self.schedule.joins_rows:
            row_sums = Index(split_columns(self.sized.shape, self.schedule.pixel_block))
        pixels = self.tile_pixels.minimum(self.row_pixels)
        with (
            loop(self.rows.minimum(self.block_rows), name="finished_row") as finished_row,
            loop(self.row_pixels, pixels, "finished_tile") as tile,
        ):
            with loop(pixels, name="finished_pixel") as finished:
                within = tile + finished
                place = pixel + (self._first_of_tile(tile) + finished)
                finish(finished_row * row_sums + within, within, row + finished_row, place)
            after()

    def _first_of_tile(self, sums: Index) -> Index:
        """The first output of the tile whose sums begin at those of a pixel: in a short row tiles overlap."""
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

    def fetched(self, row: Index, pixel: Index, number: Index) -> tuple[Index, ...]:
        """That of an output of a register block, by its number there.

        Numbers of rows that aren't known would be divided for each: that takes longer than tiles do.
        """
        if self._are_known:
            return self.position(row + number // self.row_pixels, pixel + number % self.row_pixels)
        place, within = _advanced(row, number, self.row_pixels, self.block_rows - 1)
        return self.position(place, pixel + within)

    def fetched_next(self, row: Index, pixel: Index, within: Index) -> tuple[Index, ...]:
        """That of an output of the next register block, whose row it is in, by its number in the row."""
        last = (self.pixels - self.row_pixels).maximum(0)
        return self.position(row, (pixel + self.row_pixels).minimum(last) + within)

    @property
    def _are_known(self) -> bool:
        return not self.sized.shape.unknown_sizes


@dataclass(frozen=True)
class JoinedOutputs(TiledOutputs):
    """Those of a copy of images of unknown sizes whose tiles go on in the next row.

    All rows are one line, as long as the columns of the input are: what lies between two rows is summed, too,
    and left out. Behind the last row a tile may read what was copied for other channels, or not at all.
    """

    @property
    def block_pixels(self) -> Index:
        return self.tile_pixels * self.schedule.block.row_tiles

    @property
    def block_rows(self) -> int:
        return 1

    @property
    def lines(self) -> Index:
        return Index(1)

    @property
    def line_pixels(self) -> Index:
        return (self.rows - 1) * self.columns + self.pixels

    @property
    def columns(self) -> Index:
        """Of the input: outputs of the line from one row to the next."""
        return split_columns(self.sized.shape, self.pixels)

    def place_of_tile(self, tile: int) -> tuple[Index, Index]:
        return Index(0), self.tile_pixels * tile

    def for_each(self, row: Index, pixel: Index, finish: Finish, after: Callable[[], None]) -> None:
        end = (pixel + self.block_pixels).minimum(self.line_pixels)
        first_row = pixel // self.columns
        with loop((end - 1) // self.columns - first_row + 1, name="finished_row") as number:
            place = first_row + number
            begin_of_row = place * self.columns
            begin = begin_of_row.maximum(pixel)
            count = (begin_of_row + self.pixels).minimum(end) - begin
            with loop(count, TILE_ROWS, "finished_tile") as tile:
                with loop((count - tile).minimum(TILE_ROWS), name="finished_pixel") as finished:
                    in_line = begin + (tile + finished)
                    within = in_line - pixel
                    finish(within, within, place, in_line - begin_of_row)
                after()

    def fetched(self, row: Index, pixel: Index, number: Index) -> tuple[Index, ...]:
        first_row = pixel // self.columns
        after = pixel - first_row * self.columns + number
        place, within = _advanced(first_row, after, self.columns, _ROWS_OF_BLOCK)
        return self.position(place.minimum(self.rows - 1), within.minimum(self.pixels - 1))

    def fetched_next(self, row: Index, pixel: Index, within: Index) -> tuple[Index, ...]:
        return self.fetched(row, pixel, self.block_pixels + within)


def _advanced(row: Index, number: Index, of_row: Index, most: int) -> tuple[Index, Index]:
    """The row of an element and its place there, `most` rows behind that which it is numbered from."""
    for _ in range(most):
        is_behind = number.at_least(of_row)
        row = select_index(is_behind, row + 1, row)
        number = select_index(is_behind, number - of_row, number)
    return row, number


def _equal_tiles(pixels: Index, of_block: int) -> Index:
    """The outputs of a tile where a line is divided into as few register blocks of equal tiles as hold it."""
    return ceildiv(pixels, ceildiv(pixels, TILE_ROWS * of_block) * of_block)


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
