"""Blocks of neighbouring outputs of two dimensions that one thread computes, and what they read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from iree.winograd.pipelines.emission.index import Condition, Index, ceildiv, unflatten
from iree.winograd.pipelines.emission.sized_shape import SizedShape
from iree.winograd.pipelines.emission.tiles import Positions
from iree.winograd.pipelines.gpu.schedules.columns import elements_read


@dataclass(frozen=True)
class OutputBlocks:
    """A direct convolution's outputs by blocks of `rows` x `columns`, of which each image has a whole number.

    They are numbered image by image, rows of so many `beside` each other and then those below as neighbours:
    what they read overlaps most. Of blocks beside each other an image has a multiple of that.
    """

    shape: SizedShape
    rows: int
    columns: int
    beside: int = 1

    @property
    def _per_image(self) -> tuple[Index, Index]:
        """Blocks beside each other, and below each other."""
        rows, columns = self.shape.output_size
        return ceildiv(columns, self.columns), ceildiv(rows, self.rows)

    def count(self, batch: Index) -> Index:
        """Blocks of so many images."""
        across, down = self._per_image
        return batch * across * down

    def locate(self, number: Index) -> OutputBlock:
        """That of this number."""
        across, down = self._per_image
        extents = (across // self.beside, down, self.beside)
        if self.shape.is_one_image:
            image, (strip, row, column) = Index(0), unflatten(number, extents)
        else:
            image, strip, row, column = unflatten(number, (0, *extents))
        return OutputBlock(self, image, *self._first(strip * self.beside + column, row))

    def _first(self, column: Index, row: Index) -> tuple[Index, Index]:
        return row * self.rows, column * self.columns


@dataclass(frozen=True)
class OutputBlock:
    """One block: its image, and its first output."""

    outputs: OutputBlocks
    image: Index
    row: Index
    column: Index

    def output(self, row: int, column: int) -> tuple[Index, Index]:
        """The position of an output."""
        return self.row + row, self.column + column

    def exists(self, row: int, column: int) -> Condition:
        """Whether the image has this one."""
        return self._exists(0, row) & self._exists(1, column)

    def _exists(self, d: int, number: int) -> Condition:
        size, block = self.outputs.shape.output_size[d], (self.outputs.rows, self.outputs.columns)[d]
        if size.known is not None and (size.known % block == 0 or number < size.known % block):
            return Condition(True)
        return ((self.row, self.column)[d] + number).less_than(size)

    @cached_property
    def positions(self) -> tuple[Positions, Positions]:
        """Of the rows that it reads, and of what it reads of each."""
        rows, columns = (self._positions(d) for d in range(2))
        return rows, columns

    def _positions(self, d: int) -> Positions:
        shape, block = self.outputs.shape, (self.outputs.rows, self.outputs.columns)[d]
        step, padding = shape.decomposition.step[d], shape.padding_low[d]
        blocks = ceildiv(shape.output_size[d], block).known
        return Positions(
            first=(self.row, self.column)[d] * step - padding,
            spacing=1,
            count=elements_read(shape.decomposition, block, d)[-1] + 1,
            size=shape.input_size[d],
            lowest_first=-padding,
            highest_first=None if blocks is None else (blocks - 1) * block * step - padding,
        )
