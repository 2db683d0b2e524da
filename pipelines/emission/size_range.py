"""Images that a kernel computes where others have kernels of their own: those of some sizes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .index import Condition, Index, all_of, select_index
from .sized_shape import SizedShape, product
from .work import Sizes

SUMMED = "summed"
"""What dimensions are called whose elements are counted."""


@dataclass(frozen=True)
class SizeRange(ABC):
    """Images of at least `first` elements of a kind, and fewer than `end`, if any."""

    first: int
    end: int | None

    def all_or_none(self, sizes: Sizes, number: Index) -> Index:
        """`number` for images of these sizes that are among them, none for others."""
        elements = self.elements(sizes)
        begins = elements.at_least(self.first) if self.first > 0 else Condition(True)
        ends = Condition(True) if self.end is None else elements.less_than(self.end)
        return select_index(all_of([begins, ends]), number, 0)

    @abstractmethod
    def elements(self, sizes: Sizes) -> Index:
        """How many there are in images of these sizes."""


@dataclass(frozen=True)
class TileRange(SizeRange):
    """By the tiles of all images of `shape`."""

    shape: ConvolutionShape

    def elements(self, sizes: Sizes) -> Index:
        return sizes.batch * product(SizedShape.of(self.shape, sizes).tiles_per_image)


@dataclass(frozen=True)
class SummedRange(SizeRange):
    """By what a sum is of: the elements along all dimensions that are called `SUMMED`."""

    def elements(self, sizes: Sizes) -> Index:
        return product(sizes.spatial(SUMMED))
