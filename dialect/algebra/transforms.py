"""The transforms of F(m, r) for the shipped points, and their nested application."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from iree.winograd.dialect.algebra.cook_toom import CookToom, Matrix, check_size, cook_toom
from iree.winograd.dialect.algebra.points import points_for
from iree.winograd.dialect.algebra.recipe import Operation, Recipe
from iree.winograd.dialect.algebra.scaling import short_output_scale
from iree.winograd.dialect.algebra.straight_line import recipe_of

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Transforms:
    """F(m, r) with a recipe for each of its matrices: `output` A^T, `filter` G, `input` B^T."""

    algorithm: CookToom
    output: Recipe
    filter: Recipe
    input: Recipe

    def __hash__(self) -> int:
        # Of all its fractions it would take longer than what is cached of it.
        return hash((self.m, self.r))

    @property
    def m(self) -> int:
        return self.algorithm.m

    @property
    def r(self) -> int:
        return self.algorithm.r

    @property
    def alpha(self) -> int:
        return self.algorithm.alpha


@cache
def transforms(m: int, r: int) -> Transforms:
    """The transforms of F(m, r), loaded for shipped sizes and derived for others.

    Raises ValueError when m or r is not positive.
    """
    check_size(m, r)
    shipped = _shipped().get(f"{m},{r}")
    return derive(m, r) if shipped is None else from_data(shipped)


@cache
def gradient_transforms(m: int, r: int) -> Transforms:
    """F(r, m), the transposes of F(m, r): from a tile of inputs and gradients of outputs to those of taps.

    The filter of this algorithm are the gradients of `m` outputs, its outputs those of `r` taps:
    G^T [(A y) . (B^T d)] (Huang et al., DWM, AAAI 2020, equation 15). Tiles of inputs are transformed alike.

    Raises ValueError when m or r is not positive.
    """
    forward = transforms(m, r)
    given = forward.algorithm
    algorithm = CookToom(
        r, m, given.points, _transposed(given.filter), _transposed(given.output), given.input
    )
    # The search finds nothing shorter for these when it starts again.
    output, filters = (recipe_of(each, restarts=1) for each in (algorithm.output, algorithm.filter))
    return Transforms(algorithm, output, filters, forward.input)


def derive(m: int, r: int, restarts: int = 8) -> Transforms:
    """The transforms of F(m, r) from the shipped points, searching for the recipes."""
    if m == 1 or r == 1:
        return with_recipes(cook_toom(m, r), restarts)
    points = points_for(m + r - 1)
    return with_recipes(cook_toom(m, r, points, output_scale=short_output_scale(points, m)), restarts)


def with_recipes(algorithm: CookToom, restarts: int = 8) -> Transforms:
    """The algorithm with a recipe found for each matrix."""
    return Transforms(
        algorithm,
        recipe_of(algorithm.output, restarts),
        recipe_of(algorithm.filter, restarts),
        recipe_of(algorithm.input, restarts),
    )


def apply(
    transform: Recipe | Matrix | Array | Sequence[Recipe | Matrix | Array],
    array: Array,
    axes: Sequence[int],
    fma: Callable[[Any, Any, Any], Any] | None = None,
) -> Array:
    """The nested transform of an array along some of its axes, in order; each axis keeps its place.

    One transform serves all axes, or a list has one per axis (rectangular nesting, F(4 x 1, 3 x 1) say).
    A matrix multiplies in the array's type; a recipe is evaluated step by step in it, with `fma(constant,
    a, b)` for its fused multiply-adds where given. Raises ValueError when an axis doesn't have the length
    that its transform takes.
    """
    per_axis = list(transform) if isinstance(transform, list) else [transform] * len(axes)
    if len(per_axis) != len(axes):
        raise ValueError(f"{len(axes)} axes need as many transforms, but {len(per_axis)} were given")
    for one, axis in zip(per_axis, axes, strict=True):
        array = _apply_along(one, array, axis, fma)
    return array


def _apply_along(
    transform: Any, array: Array, axis: int, fma: Callable[[Any, Any, Any], Any] | None
) -> Array:
    length = transform.inputs if isinstance(transform, Recipe) else len(transform[0])
    if array.shape[axis] != length:
        raise ValueError(f"the transform takes {length} values, but axis {axis} has {array.shape[axis]}")
    leading = np.moveaxis(array, axis, 0)
    if isinstance(transform, Recipe):
        transformed = np.stack(transform.apply(list(leading), fma))
    else:
        transformed = np.tensordot(as_array(transform, array.dtype), leading, axes=1)
    return np.moveaxis(transformed, 0, axis)


def _transposed(matrix: Matrix) -> Matrix:
    return tuple(zip(*matrix, strict=True))


def as_array(matrix: Matrix | Array, dtype: npt.DTypeLike = np.float64) -> Array:
    """The matrix as an array, each entry rounded once; exact for the object type."""
    if isinstance(matrix, np.ndarray):
        return matrix.astype(dtype)
    if np.dtype(dtype) == object:
        return np.array(matrix, dtype=object)
    return np.array([[float(entry) for entry in row] for row in matrix]).astype(dtype)


def to_data(found: Transforms) -> dict[str, Any]:
    """The transforms as plain data for the shipped file."""
    algorithm = found.algorithm
    return {
        "m": algorithm.m,
        "r": algorithm.r,
        "points": [str(point) for point in algorithm.points],
        **{
            name: {
                "matrix": [" ".join(map(str, row)) for row in getattr(algorithm, name)],
                "operations": [
                    _operation_to_text(operation) for operation in getattr(found, name).operations
                ],
                "outputs": list(getattr(found, name).outputs),
            }
            for name in ("output", "filter", "input")
        },
    }


def from_data(data: dict[str, Any]) -> Transforms:
    """The inverse of `to_data`."""
    from iree.winograd.dialect.algebra.point import parse_point

    matrices = {
        name: tuple(tuple(Fraction(entry) for entry in row.split()) for row in data[name]["matrix"])
        for name in ("output", "filter", "input")
    }
    recipes = {
        name: Recipe(
            len(matrices[name][0]),
            tuple(_operation_from_text(text) for text in data[name]["operations"]),
            tuple(data[name]["outputs"]),
        )
        for name in matrices
    }
    points = tuple(parse_point(point) for point in data["points"])
    return Transforms(CookToom(data["m"], data["r"], points, **matrices), **recipes)


def _operation_to_text(operation: Operation) -> str:
    parts = [operation.kind, operation.a, operation.b, operation.constant]
    return " ".join("-" if part is None else str(part) for part in parts)


def _operation_from_text(text: str) -> Operation:
    kind, a, b, constant = text.split()
    return Operation(
        kind,  # type: ignore[arg-type]
        int(a),
        None if b == "-" else int(b),
        None if constant == "-" else Fraction(constant),
    )


@cache
def _shipped() -> dict[str, Any]:
    """The contents of the data file, read on first use."""
    path = Path(__file__).with_name("recipes.json")
    data: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    return data
