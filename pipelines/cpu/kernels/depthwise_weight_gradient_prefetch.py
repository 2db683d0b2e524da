"""What the CPU kernel of a depthwise weight gradient fetches of the next block of rows while it sums one."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.cpu.processor.product import CACHE_LINE_FLOATS
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.index import Index

from .depthwise_weight_gradient_blocking import DepthwiseWeightGradientBlocking, RowBlock, TapBlock


@dataclass(frozen=True)
class PrefetchStream:
    """Elements that are fetched to L2, `lines` cache lines for each block of pixels."""

    buffer: Buffer
    first: Index
    lines: int

    def prefetch(self, block: Index) -> None:
        first = self.first + block * (self.lines * CACHE_LINE_FLOATS)
        for number in range(self.lines):
            self.buffer.prefetch(first + number * CACHE_LINE_FLOATS, to_l2=True)


@dataclass(frozen=True)
class NextBlock:
    """What divides the image and gradients of the next block among the blocks of pixels of this one."""

    blocking: DepthwiseWeightGradientBlocking

    def streams(
        self, block: RowBlock, output: Index, taps: TapBlock, image: Buffer, gradients: Buffer
    ) -> tuple[PrefetchStream, ...]:
        """What to fetch of the next block's image and gradients while a row of outputs of this one is summed.

        The blocks of pixels of all vectors fetch it in the order in which it lies in memory: strides of many
        channels are fetched less fast. Rows at the border of the image, which are summed apart, fetch
        nothing, nor do parts of the channels.
        """
        rows = self.blocking.dimensions[-2]
        row_block = self.blocking.row_block.known
        if row_block is None or taps.rows < self.blocking.rows_together or self.blocking.channel_parts > 1:
            return ()
        row_number = taps.first_row // taps.rows * row_block + (output - block.first_row)
        pixel_blocks = len(self.blocking.pixel_blocks)
        number = block.vector * (rows.taps // taps.rows * row_block) + row_number
        count = self.blocking.channel_blocks.count * (rows.taps // taps.rows) * row_block * pixel_blocks
        next_read = rows.read(block.end_row, Index(rows.taps - 1)) + (1 - rows.step)

        def stream(buffer: Buffer, row: Index, rows: int) -> PrefetchStream:
            lines = ceil_div(rows * buffer.known_stride(-3), count * CACHE_LINE_FLOATS)
            first = buffer.offset([*block.position, row]) + number * (
                pixel_blocks * lines * CACHE_LINE_FLOATS
            )
            return PrefetchStream(buffer, first, lines)

        return (
            stream(image, next_read, row_block * rows.step),
            stream(gradients, block.end_row, row_block),
        )
