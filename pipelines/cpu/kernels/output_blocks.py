"""How the outputs of images are divided among workgroups: neighbouring rows, and neighbours in each."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.pipelines.cpu.schedules.direct import DirectSchedule
from iree.winograd.pipelines.emission.index import Condition, Index, ceildiv
from iree.winograd.pipelines.emission.sized_shape import SizedShape
from iree.winograd.pipelines.problems.shape import ConvolutionShape


def even_block(count: Index, most: int, block_multiple: int) -> Index:
    """How many of `count` a block has, at most so many, where blocks are a multiple of `block_multiple`.

    There are fewer blocks only where they would be empty.
    """
    blocks = ceildiv(ceildiv(count, most), block_multiple) * block_multiple
    return ceildiv(count, blocks.maximum(1)).maximum(1)


@dataclass(frozen=True)
class OutputBlock:
    """The outputs of a workgroup: `rows` rows of image `number`, from pixel `first_pixel` on."""

    number: Index
    first_row: Index
    rows: Index
    first_pixel: Index

    def pixels(self, shape: ConvolutionShape, row_pixels: int) -> range:
        """From the first to the last of `row_pixels` in each row, for a block that is known.

        They are numbered as `TouchedPixels` are.
        """
        rows = self.number * shape.output_rows + self.first_row
        first = (rows * shape.output_size[-1] + self.first_pixel).known
        last_row = ((self.rows - 1) * shape.output_size[-1]).known
        assert first is not None
        assert last_row is not None
        return range(first, first + last_row + row_pixels)


@dataclass(frozen=True)
class OutputBlocks:
    """The outputs of images by workgroups of the direct kernel: blocks of rows, and of pixels of each row."""

    sized: SizedShape
    schedule: DirectSchedule

    @property
    def of_rows(self) -> Index:
        return ceildiv(self.sized.output_rows, self.rows)

    @property
    def rows(self) -> Index:
        """Those of a block, but for the last one: of images of any size as `even_block` has them."""
        of_image, block, multiple = (
            self.sized.output_rows,
            self.schedule.row_block,
            self.schedule.block_multiple,
        )
        if of_image.known is not None or multiple is None:
            return Index(block)
        return even_block(of_image, block, multiple)

    @property
    def of_pixels(self) -> Index:
        """Blocks of a row, of images of a single one at least as many as there are to be."""
        of_row, multiple = self.sized.output_size[-1], self.schedule.block_multiple
        blocks = ceildiv(of_row, self.schedule.pixel_block)
        if of_row.known is not None or multiple is None or self.sized.output_rows.known != 1:
            return blocks
        return ceildiv(of_row, self.schedule.register_pixels).minimum(ceildiv(blocks, multiple) * multiple)

    @property
    def row_pixels(self) -> Index:
        """Those of each row of a block: as the schedule says where rows are known to be as long.

        Other rows are divided evenly. Of 480 pixels in blocks of 384 the second would compute 288 again.
        """
        of_row, block = self.sized.output_size[-1], self.schedule.pixel_block
        if of_row.known is not None:
            return of_row.minimum(block)
        registers = self.schedule.register_pixels
        even = ceildiv(ceildiv(of_row, self.of_pixels), registers) * registers
        return even.minimum(block).minimum(of_row)

    def are_patches(self, outputs: OutputBlock) -> Condition:
        """Whether what the outputs of a workgroup read is gathered, so that register blocks have outputs of
        several rows: where rows are shorter than these, or take a third more of them."""
        if self.row_pixels.known is not None:
            return Condition(False)
        registers, of_row = self.schedule.register_pixels, self.sized.output_size[-1]
        of_rows = outputs.rows * ceildiv(of_row, registers)
        are_fewer = (of_rows * 3).at_least(ceildiv(outputs.rows * of_row, registers) * 4)
        is_whole = self.of_pixels.equals(1)
        return of_row.less_than(registers) | (is_whole & are_fewer)

    def outputs(self, number: Index) -> OutputBlock:
        """The outputs of a workgroup."""
        schedule = self.schedule
        image = Index(0) if self.sized.shape.batch == 1 else number // (self.of_rows * self.of_pixels)
        rows, of_image = self.rows, self.sized.output_rows
        first_row = number // self.of_pixels % self.of_rows * rows
        if of_image.known is None or of_image.known % schedule.row_block:
            rows = (of_image - first_row).minimum(rows)
        # The last block of pixels overlaps its neighbour rather than be cut short.
        row_pixels = self.row_pixels
        first_pixel = (number % self.of_pixels * row_pixels).minimum(self.sized.output_size[-1] - row_pixels)
        return OutputBlock(image, first_row, rows, first_pixel)
