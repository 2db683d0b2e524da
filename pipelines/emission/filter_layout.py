"""How filters that are known only at run time lie in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .buffer import Buffer
from .index import Index, IndexLike


@dataclass(frozen=True)
class FilterLayout:
    """Dimension `i` of R... x C/g x K is dimension `permutation[i]` in memory.

    With `flipped` the taps of each dimension R are there from the last to the first.
    """

    permutation: tuple[int, ...]
    flipped: bool

    def place(
        self,
        filters: Buffer,
        kernel_size: Sequence[int],
        tap: Sequence[IndexLike],
        channels: Sequence[IndexLike],
    ) -> Index:
        """The element offset of a tap by an input channel of a group and an output channel."""
        if self.flipped:
            tap = [Index(size - 1) - Index.of(i) for size, i in zip(kernel_size, tap, strict=True)]
        place: list[IndexLike] = [0] * len(self.permutation)
        for dimension, index in zip(self.permutation, (*tap, *channels), strict=True):
            place[dimension] = index
        return filters.offset(place)

    def output_stride(self, filters: Buffer) -> IndexLike:
        """Elements from one output channel to the next."""
        return filters.stride(self.permutation[-1])

    @property
    def outputs_are_innermost(self) -> bool:
        """Whether neighbouring output channels are neighbours in memory."""
        return self.permutation[-1] == len(self.permutation) - 1
