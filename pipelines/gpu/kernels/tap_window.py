"""Rows of an image that neighbouring rows of a resized one have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from iree.winograd.passes.match.resampling import Axis
from iree.winograd.pipelines.emission.index import Index


@dataclass(frozen=True)
class RowWindow:
    """Row `o` of a result reads rows `step * (o // rows) + first + offsets[o % rows] + t` of an image.

    Those beyond its border are the ones at the border. A block of `rows` reads `height` of them.
    """

    rows: int
    step: int
    first: int
    offsets: tuple[int, ...]
    """The least is zero."""
    taps: int
    size: int
    """Rows of the image."""

    @staticmethod
    def of(axis: Axis, size: int, rows: int) -> RowWindow | None:
        """That of blocks of so many rows; None where not all blocks are alike."""
        blocks, rest = divmod(axis.size, rows)
        if rest or blocks <= 1:
            return None
        # Blocks in the middle read what isn't beyond the border.
        block = (blocks - 1) // 2
        begins, following = (axis.indices[0, each * rows : (each + 1) * rows] for each in (block, block + 1))
        step, first = int(following[0] - begins[0]), int(begins.min())
        found = RowWindow(
            rows, step, first - block * step, tuple(int(each) - first for each in begins), axis.taps, size
        )
        return None if found.axis(axis) is None else found

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
    def height(self) -> int:
        """Rows that a block reads."""
        return max(self.offsets) + self.taps

    def row(self, block: Index, number: int) -> Index:
        """Where one of them is."""
        before = max(0, -(self.first + number))
        place = (block * self.step + max(0, self.first + number)).maximum(before) - before
        return place.minimum(self.size - 1)

    def _indices(self, count: int) -> npt.NDArray[Any]:
        """Those of the taps of so many rows, taps x rows."""
        row, tap = np.arange(count), np.arange(self.taps)[:, None]
        begins = self.step * (row // self.rows) + self.first + np.array(self.offsets)[row % self.rows]
        indices: npt.NDArray[Any] = np.clip(begins + tap, 0, self.size - 1)
        return indices
