"""Windows of an image that are pooled."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Windows:
    """Neighbouring elements of an image N x H x W x C, those of each channel by themselves."""

    extents: tuple[int, ...]
    """Rows and columns of the image."""
    channels: int
    size: tuple[int, ...]
    strides: tuple[int, ...]
    low: tuple[int, ...]
    """Rows and columns that the first one begins before the image."""
    outputs: tuple[int, ...]
    """Windows along each dimension."""

    def first(self, dimension: int, window: int) -> int:
        """The position of a window's first element, which may be outside of the image."""
        return window * self.strides[dimension] - self.low[dimension]

    def has_element(self, dimension: int) -> bool:
        """Whether each of them has an element of the image."""
        last = self.first(dimension, self.outputs[dimension] - 1)
        return self.first(dimension, 0) + self.size[dimension] > 0 and last < self.extents[dimension]
