"""Neighbouring outputs along the last dimension that one thread computes, and what they read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from iree.winograd.pipelines.emission.index import Condition, Index, IndexLike, all_of, ceildiv, unflatten
from iree.winograd.pipelines.emission.sized_shape import SizedShape
from iree.winograd.pipelines.emission.tiles import Positions
from iree.winograd.pipelines.gpu.schedules.columns import element_of, elements_read


@dataclass(frozen=True)
class OutputColumns:
    """A direct convolution's outputs by groups of so many columns, of which each row has a whole number.

    They are numbered image by image, those below each other as neighbours: what they read overlaps most.
    """

    shape: SizedShape
    columns: int

    @property
    def per_row(self) -> Index:
        return ceildiv(self.shape.output_size[-1], self.columns)

    def count(self, batch: Index) -> Index:
        """Groups of columns in so many images."""
        return batch * self.shape.output_rows * self.per_row

    def locate(self, number: Index) -> Columns:
        """Those with this number."""
        *outer, _ = self.shape.output_size
        if not outer:
            image, group = self._of_images(number, (self.per_row,))
            return Columns(self, image, (), group * self.columns)
        image, *first, group, row = self._of_images(number, (*outer[:-1], self.per_row, outer[-1]))
        return Columns(self, image, (*first, row), group * self.columns)

    def _of_images(self, number: Index, sizes: tuple[IndexLike, ...]) -> tuple[Index, ...]:
        """The image and the coordinates within `sizes` that a number stands for."""
        if self.shape.is_one_image:
            return Index(0), *unflatten(number, sizes)
        return unflatten(number, (0, *sizes))


@dataclass(frozen=True)
class Columns:
    """One group: its image, its place in all dimensions but the last, and its first output in that."""

    outputs: OutputColumns
    image: Index
    row_of_outputs: tuple[Index, ...]
    first: Index
    are_inside: bool = False
    """Whether all that they read of a row is known to lie in it."""

    @property
    def may_be_inside(self) -> Condition:
        """Whether it does: known not to be asked for where the size is known, which few columns reach."""
        shape = self.outputs.shape
        if shape.output_size[-1].known is not None:
            return Condition(False)
        begin = self.first * shape.decomposition.step[-1] - shape.padding_low[-1]
        last = begin + self.elements[-1]
        return begin.at_least(0) & last.less_than(shape.input_size[-1])

    def output(self, column: int) -> tuple[Index, ...]:
        """The position of an output."""
        return (*self.row_of_outputs, self.first + column)

    def exists(self, column: int) -> Condition:
        """Whether a row of outputs has this one."""
        if self.are_inside:
            return Condition(True)
        size, columns = self.outputs.shape.output_size[-1], self.outputs.columns
        if size.known is not None and (size.known % columns == 0 or column < size.known % columns):
            return Condition(True)
        return (self.first + column).less_than(size)

    def row(self, taps: Sequence[IndexLike]) -> tuple[tuple[Index, ...], Condition]:
        """Where a row of taps, all dimensions but the last of one, reads, and whether the image has that."""
        shape = self.outputs.shape
        decomposition = shape.decomposition
        positions, exists = [], []
        for d, tap in enumerate(map(Index.of, taps)):
            distance = tap * decomposition.dilation[d] - shape.padding_low[d]
            position = self.row_of_outputs[d] * decomposition.step[d] + distance
            positions.append(position)
            outputs, size = shape.output_size[d].known, shape.input_size[d].known
            lowest = distance.known
            if lowest is None or outputs is None or size is None:
                exists.append(position.within(shape.input_size[d]))
            elif lowest < 0 or (outputs - 1) * decomposition.step[d] + lowest >= size:
                exists.append(position.within(size))
        return tuple(positions), all_of(exists)

    def row_inside(self, taps: Sequence[IndexLike]) -> tuple[tuple[Index, ...], Condition]:
        """The same, moved into the image where it has no such row."""
        position, exists = self.row(taps)
        if exists.known:
            return position, exists
        sizes = self.outputs.shape.input_size
        inside = (each.moved_into(size) for each, size in zip(position, sizes, strict=False))
        return tuple(inside), exists

    def element_of(self, column: int, tap: int) -> int:
        """Which of the elements that they read a tap of the last dimension multiplies for an output."""
        return element_of(self.outputs.shape.decomposition, column, tap)

    @cached_property
    def elements(self) -> tuple[int, ...]:
        """All that are read, each once."""
        return elements_read(self.outputs.shape.decomposition, self.outputs.columns)

    def element(self, number: int) -> tuple[Index, Condition]:
        """Where in the row an element lies, moved into it if need be, and whether it exists there."""
        shape, columns = self.outputs.shape, self.outputs.columns
        step, padding = shape.decomposition.step[-1], shape.padding_low[-1]
        if self.are_inside:
            return self.first * step - padding + number, Condition(True)
        groups = self.outputs.per_row.known
        positions = Positions(
            first=self.first * step - padding,
            spacing=1,
            count=self.elements[-1] + 1,
            size=shape.input_size[-1],
            lowest_first=-padding,
            highest_first=None if groups is None else (groups - 1) * columns * step - padding,
        )
        return positions.clamped(Index(number))
