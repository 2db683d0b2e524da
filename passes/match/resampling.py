"""Images that are weighted sums of another's elements in each dimension: resized, or some channels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.blends import Blend, Blends, distinct
from iree.winograd.passes.match.no_match import NoMatch

Array = npt.NDArray[Any]

# A weight is rounded to f32 by the program, and the sum of a dimension's holds at most four of them.
_WEIGHT_ERROR = 8 * 2.0**-24


@dataclass(frozen=True)
class Axis:
    """Element `o` along a dimension is the sum over `t` of `weights[t, o]` times element `indices[t, o]`.

    Both are taps x size; the weights of an element add up to 1.
    """

    indices: Array
    weights: Array

    @property
    def taps(self) -> int:
        """How many elements are summed."""
        return len(self.indices)

    @property
    def size(self) -> int:
        """Elements of the result along the dimension."""
        return int(self.indices.shape[1])


@dataclass(frozen=True)
class Resampling:
    """The tensor that is `source` with the dimensions of `axes` resampled, one after the other."""

    source: ir.Value
    axes: Mapping[int, Axis]


def match_resampling(operation: ir.Operation, blends: Blends | None = None) -> Resampling | NoMatch | None:
    """The resampling that the result of `operation` is; None for what reads nothing at computed positions.

    `blends` has observed what is before `operation` of more than constants.
    """
    known = (blends or Blends()).observe(operation)
    if isinstance(known, Blend):
        return _as_resampling(operation, known)
    if operation.name == "linalg.generic" and _extracts(operation):
        return NoMatch(operation, "the positions or weights of what it reads aren't known at compile time")
    return None


def _extracts(operation: ir.Operation) -> bool:
    """Whether `operation` reads elements of an image at positions that it computes."""
    if len(operation.results) != 1 or ir.RankedTensorType(operation.results[0].type).rank < 3:
        return False
    names = [view.operation.name for view in operation.regions[0].blocks[0].operations]
    return "tensor.extract" in names


def _as_resampling(operation: ir.Operation, blend: Blend) -> Resampling | NoMatch:
    shape = tuple(ir.RankedTensorType(operation.results[0].type).shape)
    source_shape = tuple(ir.RankedTensorType(blend.source.type).shape)
    if len(source_shape) != len(shape):
        return NoMatch(operation, "it reads an image of another rank")
    indices = [list(distinct([tap.indices[d] for tap in blend.taps])) for d in range(len(shape))]
    for dimension, choices in enumerate(indices):
        others = [size for index in choices for d, size in enumerate(index.shape) if d != dimension]
        if any(size != 1 for size in others):
            return NoMatch(operation, "positions in one dimension depend on another")
    weights = _weights_of_axes(blend, indices, shape)
    if weights is None:
        return NoMatch(operation, "its weights aren't products of one for each dimension that add up to 1")
    axes = {}
    for dimension, (choices, weight) in enumerate(zip(indices, weights, strict=True)):
        size = shape[dimension]
        positions = np.stack([np.broadcast_to(index.ravel(), size) for index in choices])
        is_whole = size == source_shape[dimension] and np.array_equal(positions, [np.arange(size)])
        if not is_whole:
            axes[dimension] = Axis(positions.astype(np.int32), weight.astype(np.float32))
    return Resampling(blend.source, axes)


def _weights_of_axes(blend: Blend, indices: list[list[Array]], shape: tuple[int, ...]) -> list[Array] | None:
    """Per dimension the weights of its `indices`, taps x size, whose products are those of `blend`."""
    places = [
        [
            next(i for i, index in enumerate(choices) if np.array_equal(index, tap.indices[d]))
            for d, choices in enumerate(indices)
        ]
        for tap in blend.taps
    ]
    weights = []
    for dimension, choices in enumerate(indices):
        sums = [
            sum(
                tap.weight
                for tap, place in zip(blend.taps, places, strict=True)
                if place[dimension] == choice
            )
            for choice in range(len(choices))
        ]
        along = [_only_along(np.asarray(total), dimension) for total in sums]
        if any(total is None for total in along):
            return None
        weights.append(
            np.stack([np.broadcast_to(total, shape[dimension]) for total in along if total is not None])
        )
    by_place = {tuple(place): tap.weight for tap, place in zip(blend.taps, places, strict=True)}
    for place in np.ndindex(*map(len, indices)):
        product = np.ones((1,) * len(shape))
        for dimension, choice in enumerate(place):
            sizes = [-1 if d == dimension else 1 for d in range(len(shape))]
            product = product * weights[dimension][choice].reshape(sizes)
        if np.abs(product - by_place.get(place, 0.0)).max(initial=0) > _WEIGHT_ERROR:
            return None
    return weights


def _only_along(array: Array, dimension: int) -> Array | None:
    """The elements of `array` by their index in `dimension`; None where others change them."""
    moved = np.moveaxis(array, dimension, -1)
    flat = moved.reshape(-1, moved.shape[-1])
    return flat[0] if np.abs(flat - flat[0]).max(initial=0) <= _WEIGHT_ERROR else None
