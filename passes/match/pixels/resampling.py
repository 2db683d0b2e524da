"""Images that are weighted sums of another's elements in each dimension: resized, or some channels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.no_match import NoMatch, Reason
from iree.winograd.passes.match.pixels.blends import Blend, Blends

Array = npt.NDArray[Any]

# A weight is rounded to f32 by the program, and the sum of a dimension's holds at most four of them.
_WEIGHT_ERROR = 8 * 2.0**-24
_LINEAR_TAPS = 2
# Those of cubic interpolation are polynomials, which the program evaluates in f32. By Horner's method, with
# coefficients of at most 8, those of the outer two elements err by up to 48 units, those of the inner by 9,
# and all by what their arguments were rounded by: 128 for the sum of a dimension's, and twice that for two.
_CUBIC_WEIGHT_ERROR = 256 * 2.0**-24


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

    def repetitions(self, elements: int) -> int | None:
        """How many times in a row each of `elements` is there; None where that isn't all that is done."""
        times, rest = divmod(self.size, elements)
        if (
            self.taps > 1
            or rest
            or not np.array_equal(self.indices[0], np.arange(self.size) // max(times, 1))
        ):
            return None
        return times


@dataclass(frozen=True)
class Resampling:
    """The tensor that is `source` with the dimensions of `axes` resampled, one after the other."""

    source: ir.Value
    axes: Mapping[int, Axis]

    @property
    def repetitions(self) -> dict[int, int] | None:
        """How many times in a row elements are there along each of `axes`; None where more is done."""
        shape = ir.RankedTensorType(self.source.type).shape
        times = {dimension: axis.repetitions(shape[dimension]) for dimension, axis in self.axes.items()}
        known = {dimension: each for dimension, each in times.items() if each}
        return known if known and len(known) == len(times) else None

    @property
    def repeats_pixels(self) -> bool:
        """Whether pixels of a channels-last image are repeated as a whole, and that is all."""
        innermost = ir.RankedTensorType(self.source.type).rank - 1
        return self.repetitions is not None and innermost not in self.axes


def as_one(first: Resampling, second: Resampling) -> Resampling | None:
    """`second`, of the result of `first`, and that at once; None where both resample a dimension."""
    if set(first.axes) & set(second.axes):
        return None
    return Resampling(first.source, {**first.axes, **second.axes})


def match_resampling(operation: ir.Operation, blends: Blends | None = None) -> Resampling | NoMatch | None:
    """The resampling that the result of `operation` is; None for what reads nothing at computed positions.

    `blends` has observed what is before `operation` of more than constants.
    """
    known = (blends or Blends()).observe(operation)
    if isinstance(known, Blend):
        return _as_resampling(operation, known)
    image = _image(operation)
    return None if image is None else NoMatch(operation, _reason(operation, image))


def _image(operation: ir.Operation) -> ir.Value | None:
    """What `operation` reads single elements of, at positions that it computes, to make an image of them."""
    if operation.name != "linalg.generic" or len(operation.results) != 1:
        return None
    if ir.RankedTensorType(operation.results[0].type).rank < 3:
        return None
    body = [view.operation for view in operation.regions[0].blocks[0].operations]
    return next((each.operands[0] for each in reversed(body) if each.name == "tensor.extract"), None)


def _reason(operation: ir.Operation, image: ir.Value) -> Reason:
    types = [ir.RankedTensorType(each.type) for each in (image, operation.results[0])]
    if not isinstance(types[0].element_type, ir.F32Type):
        return f"it has elements of type {types[0].element_type}, not f32"
    if not all(type_.has_static_shape for type_ in types):
        return "its sizes are known only at run time"
    return "the positions or weights of what it reads aren't known at compile time"


def _as_resampling(operation: ir.Operation, blend: Blend) -> Resampling | NoMatch:
    shape = tuple(ir.RankedTensorType(operation.results[0].type).shape)
    source_shape = tuple(ir.RankedTensorType(blend.source.type).shape)
    if len(source_shape) != len(shape):
        return NoMatch(operation, "it reads an image of another rank")
    indices = [list(_distinct([tap.indices[d] for tap in blend.taps])) for d in range(len(shape))]
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
        # What is resized to the size that it has is read with weights of one, and the next element's of zero.
        used = weight.any(axis=1)
        weight = weight[used]
        positions = np.stack([np.broadcast_to(index.ravel(), size) for index in choices])[used]
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
    error = _WEIGHT_ERROR if max(map(len, indices)) <= _LINEAR_TAPS else _CUBIC_WEIGHT_ERROR
    weights: list[list[Array]] = []
    for dimension, choices in enumerate(indices):
        sums: list[Any] = [0.0] * len(choices)
        for tap, place in zip(blend.taps, places, strict=True):
            sums[place[dimension]] = sums[place[dimension]] + tap.weight
        along = [_only_along(each, dimension, error) for each in sums]
        known = [each for each in along if each is not None]
        total = sum(known)
        if len(known) < len(along) or not _is_within(error, total - np.float64(1)):
            return None
        weights.append([each / total for each in known])
    by_place = {tuple(place): tap.weight for tap, place in zip(blend.taps, places, strict=True)}
    for place in np.ndindex(*map(len, indices)):
        product = np.ones((1,) * len(shape))
        for dimension, choice in enumerate(place):
            product = product * weights[dimension][choice]
        if not _is_within(error, product - by_place.get(place, 0.0)):
            return None
    return [
        np.stack([np.broadcast_to(each.ravel(), size) for each in along])
        for along, size in zip(weights, shape, strict=True)
    ]


def _only_along(array: Array, dimension: int, error: float) -> Array | None:
    """`array` where only its index in `dimension` changes it, of size 1 in the others; else None."""
    first = array[tuple(slice(None if d == dimension else 1) for d in range(array.ndim))]
    return first if _is_within(error, array - first) else None


def _is_within(error: float, differences: Array) -> bool:
    return bool(np.abs(differences).max(initial=0) <= error)


def _distinct(arrays: Sequence[Array]) -> Iterator[Array]:
    """Each of `arrays` that isn't the same as one before it."""
    seen: list[Array] = []
    for array in arrays:
        if not any(np.array_equal(array, other) for other in seen):
            seen.append(array)
            yield array
