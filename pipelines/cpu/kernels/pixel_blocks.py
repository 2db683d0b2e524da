"""Blocks of neighbouring outputs of a row, and which of the elements that they read exist."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.emission.control_flow import loop, when
from iree.winograd.pipelines.emission.index import Condition, Index, ceildiv, select_index
from iree.winograd.pipelines.emission.sized_shape import SizedShape
from iree.winograd.pipelines.problems.shape import ConvolutionShape


@dataclass(frozen=True)
class PixelBlock:
    """Neighbouring outputs of a row that are summed at once, one for each sum of a register block."""

    sized: SizedShape
    row: tuple[Index, ...]
    """Its position along the outer dimensions."""
    start: Index
    reads_before: bool
    """Whether some of what they read may lie before the image: in a row's first block, all of the padding."""
    reads_beyond: bool
    """Whether some of what they read may lie behind it: in the last one, all of the padding."""


@dataclass(frozen=True)
class PixelBlocks:
    """The blocks of so many `pixels` that the rows of a convolution's outputs are divided into."""

    shape: ConvolutionShape
    pixels: int

    def for_each(self, sized: SizedShape, row: tuple[Index, ...], body: Callable[[PixelBlock], None]) -> None:
        """Blocks of a row that read nothing outside of the image in a loop, the others one by one.

        Of rows whose length isn't known the first block and the last one are these others. Where a block may
        reach beyond both ends, or several beyond one, all are in a loop that has code for both.
        """
        if sized.output_size[-1].known is None:
            self._for_each_of_unknown(sized, row, body)
            return
        starts = self._starts
        inside = [number for number, start in enumerate(starts) if self._is_inside(start)]
        first, end = (inside[0], inside[-1] + 1) if inside else (len(starts), len(starts))
        for start in starts[:first]:
            body(PixelBlock(sized, row, Index(start), reads_before=True, reads_beyond=True))
        if first < end:
            pixels = self.pixels
            with loop(end - first, name="pixel_block") as block:
                start_of_block = ((block + first) * pixels).minimum(starts[-1])
                body(PixelBlock(sized, row, start_of_block, reads_before=False, reads_beyond=False))
        for start in starts[end:]:
            body(PixelBlock(sized, row, Index(start), reads_before=True, reads_beyond=True))

    def _for_each_of_unknown(
        self, sized: SizedShape, row: tuple[Index, ...], body: Callable[[PixelBlock], None]
    ) -> None:
        pixels, last = self.pixels, sized.output_size[-1] - self.pixels

        def in_a_loop() -> None:
            with loop(ceildiv(sized.output_size[-1], pixels), name="pixel_block") as number:
                start = (number * pixels).minimum(last)
                around = PixelBlock(sized, row, start, reads_before=True, reads_beyond=True)
                if self._divides_ends:
                    # A short row.
                    body(around)
                    return
                within = replace(around, reads_before=False, reads_beyond=False)
                when(self._exists_around(start, sized), lambda: body(within), lambda: body(around))

        def with_ends() -> None:
            body(PixelBlock(sized, row, Index(0), reads_before=True, reads_beyond=False))
            with loop(ceildiv((last - pixels).maximum(0), pixels), name="pixel_block") as number:
                start = ((number + 1) * pixels).minimum(last - self._outputs_beyond)
                body(PixelBlock(sized, row, start, reads_before=False, reads_beyond=False))
            body(PixelBlock(sized, row, last, reads_before=False, reads_beyond=True))

        if self._divides_ends:
            when(self._has_ends_apart(sized), with_ends, in_a_loop)
        else:
            in_a_loop()

    def _exists_around(self, start: Index, sized: SizedShape) -> Condition:
        """Whether all that the block of pixels reads exists, in a row whose length isn't known."""
        if not self._pads_rows:
            return Condition(True)
        first = start * self.shape.strides[-1] - self.shape.padding_low[-1]
        return first.at_least(0) & (first + self._reach).less_than(sized.input_size[-1])

    def _has_ends_apart(self, sized: SizedShape) -> Condition:
        """Whether in rows of unknown length the first block ends inside, and the last one begins there.

        No block between them reads beyond the row then.
        """
        shape, last = self.shape, sized.output_size[-1] - self.pixels
        ends_inside = sized.input_size[-1].at_least(self._reach - shape.padding_low[-1] + 1)
        are_apart = ends_inside & (last * shape.strides[-1]).at_least(shape.padding_low[-1])
        if self.pixels >= self._outputs_before + self._outputs_beyond - 1:
            return are_apart
        # The last one between would begin before those that read before the row have ended.
        has_none_between = last.less_than(self.pixels + 1)
        begins_inside = (last - self._outputs_beyond).at_least(self._outputs_before)
        return are_apart & (has_none_between | begins_inside)

    @property
    def _divides_ends(self) -> bool:
        """Whether no block but the first and the last of a row reads beyond it, if these are apart."""
        padded = max(self._outputs_before, self._outputs_beyond)
        return self._pads_rows and 1 < self.pixels >= padded

    @property
    def _outputs_before(self) -> int:
        """The first outputs of a row of unknown length that read before it."""
        return ceil_div(self.shape.padding_low[-1], self.shape.strides[-1])

    @property
    def _outputs_beyond(self) -> int:
        """The last outputs of a row of unknown length, at most, that read beyond it."""
        return ceil_div(self.shape.padding_high[-1], self.shape.strides[-1])

    def column(self, pixels: PixelBlock, column: Index) -> tuple[Index, Condition]:
        """An input column of a block of pixels, moved into the image, and whether it exists.

        Columns count from that of the first tap of the block's first output.
        """
        exists = self._exists(pixels, column.known)
        if exists is not None:
            return column, Condition(exists)
        first = pixels.start * self.shape.decomposition.step[-1] - self.shape.padding_low[-1]
        position = first + column
        inside = position.within(pixels.sized.input_size[-1])
        return select_index(inside, position, 0) - first, inside

    def _exists(self, pixels: PixelBlock, column: int | None) -> bool | None:
        """Whether a column of a block exists, as far as the block's place in its row tells.

        As many of the first columns as there is padding may lie before the image, and of the last ones behind
        it. In the first block and the last one all of these do, but for those that strides leave unread.
        """
        if not pixels.reads_before and not pixels.reads_beyond:
            return True
        if column is None:
            return None
        before = column - self.shape.padding_low[-1] < 0 and pixels.reads_before
        behind = column - (self._reach - self.shape.padding_high[-1])
        if not before and not (behind > 0 and pixels.reads_beyond):
            return True
        if pixels.reads_before and pixels.reads_beyond:
            return None
        return False if before or behind >= self.shape.strides[-1] else None

    def taps_inside(self, sized: SizedShape, dimension: int, output: Index) -> tuple[Index, Index]:
        """The first tap of an outer dimension that reads the image for an output, and how many do."""
        shape, decomposition = self.shape, self.shape.decomposition
        taps, size = decomposition.kernel_size[dimension], sized.input_size[dimension]
        step, dilation = decomposition.step[dimension], decomposition.dilation[dimension]
        low = shape.padding_low[dimension]
        first, end = Index(0), Index(taps)
        if low > 0:
            first = ceildiv((Index(low) - output * step).maximum(0), dilation)
        if self._reads_beyond(dimension):
            end = ceildiv((size + low - output * step).maximum(0), dilation).minimum(taps)
        return first, (end - first).maximum(0)

    def _reads_beyond(self, dimension: int) -> bool:
        """Whether some output reads beyond the end of the image, or may in one of unknown size."""
        shape = self.shape
        if dimension in shape.unknown_sizes:
            return shape.padding_high[dimension] > 0
        last = (shape.output_size[dimension] - 1) * shape.strides[dimension] - shape.padding_low[dimension]
        return (
            last + (shape.kernel_size[dimension] - 1) * shape.dilations[dimension]
            >= shape.input_size[dimension]
        )

    def _is_inside(self, start: int) -> bool:
        """Whether all that the block of pixels reads exists."""
        first = start * self.shape.strides[-1] - self.shape.padding_low[-1]
        return first >= 0 and first + self._reach < self.shape.input_size[-1]

    @property
    def _reach(self) -> int:
        """Columns from the first to the last one that a block of pixels reads."""
        shape, pixels = self.shape, self.pixels
        return (pixels - 1) * shape.strides[-1] + (shape.kernel_size[-1] - 1) * shape.dilations[-1]

    @property
    def _pads_rows(self) -> bool:
        return self.shape.padding_low[-1] > 0 or self._reads_beyond(self.shape.spatial_rank - 1)

    @property
    def _starts(self) -> list[int]:
        """The last block overlaps its neighbour rather than be cut short."""
        pixels, size = self.pixels, self.shape.output_size[-1]
        return [min(start, size - pixels) for start in range(0, size, pixels)]

    @property
    def codes(self) -> int:
        """How often the code of a block is there: once for all inside, and for those at the border."""
        if self.shape.spatial_rank - 1 in self.shape.unknown_sizes:
            return 4 if self._divides_ends else 1 + self._pads_rows
        return 1 + sum(not self._is_inside(start) for start in self._starts)
