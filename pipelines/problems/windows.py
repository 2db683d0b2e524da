"""Windows of an image that are pooled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MOST_WRITTEN_OUT = 25
"""Elements of a window up to which what is computed of them has no loop."""


@dataclass(frozen=True)
class Windows:
    """Neighbouring elements of an image N x H... x C, those of each channel by themselves."""

    extents: tuple[int | None, ...]
    """Sizes of the image; None where they are known only at run time."""
    channels: int
    size: tuple[int, ...]
    strides: tuple[int, ...]
    low: tuple[int, ...]
    """Elements that the first one begins before the image."""
    high: tuple[int, ...]
    """Elements that there may be behind the image."""
    outputs: tuple[int | None, ...]
    """Windows along each dimension; None where it is known only at run time, as many as there may be."""

    @property
    def are_open(self) -> bool:
        """Whether a size is known only at run time."""
        return None in (*self.extents, *self.outputs)

    def kernel_name(self, kind: str) -> str:
        """The name of a kernel that computes something of them."""
        outputs = "x".join("any" if each is None else str(each) for each in self.outputs)
        return f"winograd_{kind}_{'x'.join(map(str, self.size))}_{outputs}x{self.channels}"

    def first(self, dimension: int, window: int) -> int:
        """The position of a window's first element, which may be outside of the image."""
        return window * self.strides[dimension] - self.low[dimension]

    def has_element(self, dimension: int) -> bool:
        """Whether each of them is certain to have an element of the image."""
        extent, outputs = self.extents[dimension], self.outputs[dimension]
        if extent is None or outputs is None:
            # Also of an image without elements: what a window spans is too short for one.
            return self.low[dimension] + self.high[dimension] < self.size[dimension]
        last = self.first(dimension, outputs - 1)
        return self.first(dimension, 0) + self.size[dimension] > 0 and last < extent

    def begins_before(self, dimension: int, element: int) -> bool:
        """Whether the first window has this element before the image."""
        return self.first(dimension, 0) + element < 0

    def ends_behind(self, dimension: int, element: int) -> bool:
        """Whether the last window may have this element behind the image."""
        extent, outputs = self.extents[dimension], self.outputs[dimension]
        if extent is None or outputs is None:
            return element >= self.size[dimension] - self.high[dimension]
        return self.first(dimension, outputs - 1) + element >= extent


def known_sizes(sizes: Sequence[int | None]) -> tuple[int, ...]:
    """The sizes. Raises ValueError where one of them is known only at run time."""
    known = tuple(size for size in sizes if size is not None)
    if len(known) != len(sizes):
        raise ValueError(f"sizes among {sizes} are known only at run time")
    return known
