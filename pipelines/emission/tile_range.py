"""Images that a kernel computes where others have kernels of their own: those of so many tiles."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .index import Condition, Index, all_of, select_index
from .sized_shape import SizedShape, product
from .work import Sizes


@dataclass(frozen=True)
class TileRange:
    """Batches of images of `shape` that have at least `first` tiles in all, and fewer than `end`, if any."""

    shape: ConvolutionShape
    first: int
    end: int | None

    def holds(self, sizes: Sizes) -> Condition:
        """Whether images of these sizes are among them."""
        tiles = sizes.batch * product(SizedShape.of(self.shape, sizes).tiles_per_image)
        end = Condition(True) if self.end is None else tiles.less_than(self.end)
        return all_of([tiles.at_least(self.first) if self.first > 0 else Condition(True), end])

    def all_or_none(self, sizes: Sizes, number: Index) -> Index:
        """`number` for images of these sizes that are among them, none for others."""
        return select_index(self.holds(sizes), number, 0)
