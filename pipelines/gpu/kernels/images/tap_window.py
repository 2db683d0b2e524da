"""Elements of an image that neighbouring elements of a resampled one have in common, along a dimension."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from iree.winograd.passes.match.pixels.resampling import Axis
from iree.winograd.pipelines.emission.index import Index

_WEIGHT_ROUNDING = 2.0**-23
"""By which weights of f32 that are added may differ: of those of elements that are the same one."""


@dataclass(frozen=True)
class TapWindow:
    """Element `o` reads `step * (o // block) + first + offsets[o % block] + t` of an image, for each tap `t`.

    Those beyond the border are the ones at the border. A block of elements reads `extent` of them.
    """

    block: int
    step: int
    first: int
    offsets: tuple[int, ...]
    """The least is zero."""
    taps: int
    size: int
    """Of the image along the dimension."""
    weights: tuple[tuple[float, ...], ...] | None
    """Of each element of a block those of its taps, where they are the same in all blocks."""

    @staticmethod
    def of(axis: Axis, size: int, block: int) -> TapWindow | None:
        """That of blocks of so many elements; None where not all blocks are alike."""
        blocks, rest = divmod(axis.size, block)
        if rest or blocks <= 1:
            return None
        # Blocks in the middle read what isn't beyond the border.
        middle = (blocks - 1) // 2
        begins, following = (
            axis.indices[0, each * block : (each + 1) * block] for each in (middle, middle + 1)
        )
        step, first = int(following[0] - begins[0]), int(begins.min())
        offsets = tuple(int(each) - first for each in begins)
        begin = first - middle * step
        found = TapWindow(block, step, begin, offsets, axis.taps, size, None)
        read = found.axis(axis)
        if read is None:
            return None
        weights = read.weights[:, middle * block : (middle + 1) * block]
        if not found._have_all(read, weights):
            return found
        constants = tuple(tuple(float(each) for each in taps) for taps in weights.T)
        return TapWindow(block, step, begin, offsets, axis.taps, size, constants)

    def axis(self, of: Axis) -> Axis | None:
        """An axis by its taps; None where it reads others. Torch has weights of zero behind the border."""
        indices, weights = self._indices(of.size), np.zeros_like(of.weights)
        for read, weight in zip(of.indices, of.weights, strict=True):
            is_there = indices == read
            if (weight[~is_there.any(0)] != 0).any():
                return None
            weights[is_there.argmax(0), np.arange(of.size)] += weight
        return Axis(indices, weights)

    @property
    def extent(self) -> int:
        """Elements that a block reads."""
        return max(self.offsets) + self.taps

    def place(self, block: Index, number: int) -> Index:
        """Where one of them is."""
        before = max(0, -(self.first + number))
        place = (block * self.step + max(0, self.first + number)).maximum(before) - before
        return place.minimum(self.size - 1)

    def _have_all(self, axis: Axis, weights: npt.NDArray[Any]) -> bool:
        """Whether those of a block are those of all; at the border some of the elements are the same one."""
        repeated = np.tile(weights, axis.size // self.block)
        for index in axis.indices:
            is_same = axis.indices == index
            differences = np.where(is_same, repeated - axis.weights, 0).sum(0)
            if np.abs(differences).max() > _WEIGHT_ROUNDING:
                return False
        return True

    def _indices(self, count: int) -> npt.NDArray[Any]:
        """Those of the taps of so many elements, taps x elements."""
        element, tap = np.arange(count), np.arange(self.taps)[:, None]
        begins = self.step * (element // self.block) + self.first
        begins = begins + np.array(self.offsets)[element % self.block]
        indices: npt.NDArray[Any] = np.clip(begins + tap, 0, self.size - 1)
        return indices
