"""Which elements a resized dimension is the sum of, with which weights: ONNX's `Resize`."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]

COORDINATES = (
    "align_corners",
    "asymmetric",
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "tf_crop_and_resize",
    "tf_half_pixel_for_nn",
)
MODES = ("cubic", "linear", "nearest")


@dataclass(frozen=True)
class Resized:
    """How one dimension is resized.

    `size` elements become `new_size`, `scale` times as many but for rounding. `region` is the part that is
    read, from start to end as fractions of the corners' distance, in the coordinates `tf_crop_and_resize`.
    """

    size: int
    new_size: int
    scale: float
    mode: str
    coordinates: str
    rounding: str = "round_prefer_floor"
    cubic_coefficient: float = -0.75
    antialias: bool = False
    exclude_outside: bool = False
    region: tuple[float, float] = (0.0, 1.0)


@dataclass(frozen=True)
class Table:
    """Element `o` is the sum over `t` of `weights[t, o]` times `indices[t, o]`'s, unless it is outside."""

    indices: Array
    weights: Array
    outside: Array

    @property
    def taps(self) -> int:
        """How many elements are summed."""
        return len(self.indices)


def table(resized: Resized) -> Table:
    """The elements that are read and their weights, in float64, rows that are zero left out."""
    positions = _positions(resized)
    outside = np.zeros(resized.new_size, bool)
    if resized.coordinates == "tf_crop_and_resize":
        outside = (positions < 0) | (positions > resized.size - 1)
    if resized.mode == "nearest":
        indices = _rounded(positions, resized.rounding)[None]
        weights = np.ones(indices.shape)
    else:
        first = np.floor(positions).astype(np.int64)
        taps = _offsets(resized)
        indices = first + taps[:, None]
        weights = _weights(resized, indices - positions)
        if resized.exclude_outside:
            weights = np.where((indices < 0) | (indices >= resized.size), 0, weights)
        weights = weights / weights.sum(axis=0)
    read = weights.any(axis=1)
    return Table(np.clip(indices, 0, resized.size - 1)[read], weights[read], outside)


def _positions(resized: Resized) -> Array:
    """Where each new element lies among the old ones."""
    new = np.arange(resized.new_size, dtype=np.float64)
    # Not rounded to a whole number, as ONNX defines it, unless it is the size that is given.
    length = resized.scale * resized.size
    corners = resized.size - 1
    if resized.coordinates == "align_corners":
        return new * corners / (length - 1) if length != 1 else 0 * new
    if resized.coordinates == "asymmetric":
        return _unscaled(new, resized)
    if resized.coordinates == "tf_half_pixel_for_nn":
        return _unscaled(new + 0.5, resized)
    if resized.coordinates == "tf_crop_and_resize":
        start, end = resized.region
        if length == 1:
            return 0 * new + (start + end) * corners / 2
        return start * corners + new * (end - start) * corners / (length - 1)
    if resized.coordinates == "pytorch_half_pixel" and length == 1:
        return 0 * new - 0.5
    centers = _unscaled(new + 0.5, resized) - 0.5
    if resized.coordinates == "half_pixel_symmetric":
        return centers + resized.size / 2 * (1 - resized.new_size / length)
    return centers


def _unscaled(new: Array, resized: Resized) -> Array:
    if resized.scale == resized.new_size / resized.size:
        # Whole numbers where they are, whatever the scale is rounded to.
        return new * resized.size / resized.new_size
    return new / resized.scale


def _rounded(positions: Array, rounding: str) -> Array:
    if rounding == "round_prefer_floor":
        nearest = np.ceil(positions - 0.5)
    elif rounding == "round_prefer_ceil":
        nearest = np.floor(positions + 0.5)
    else:
        nearest = np.floor(positions) if rounding == "floor" else np.ceil(positions)
    return nearest.astype(np.int64)


def _offsets(resized: Resized) -> Array:
    """Of the elements that have a weight, from the one at or before a position."""
    reach = 1 if resized.mode == "linear" else 2
    if resized.antialias:
        width = reach / min(resized.scale, 1.0)
        return np.arange(floor(-width) + 1, ceil(width) + 1)
    return np.arange(1 - reach, 1 + reach)


def _weights(resized: Resized, distances: Array) -> Array:
    scale = min(resized.scale, 1.0) if resized.antialias else 1.0
    x = np.abs(distances) * scale
    if resized.mode == "linear":
        return np.clip(1 - x, 0, 1)
    a = resized.cubic_coefficient
    inner = ((a + 2) * x - (a + 3)) * x * x + 1
    outer = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, inner, np.where(x < 2, outer, 0))
