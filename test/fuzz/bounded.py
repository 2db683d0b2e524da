"""Numbers in float64 with a bound on how far float32's may lie from them: forward error analysis as it runs.

Each operation adds what its operands' errors become to its own rounding (Higham, Accuracy and Stability of
Numerical Algorithms, section 3). A comparison whose operands are too close to be told apart contributes the
difference of what it chooses between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

ROUNDOFF = 2.0**-24
LEAST = 2.0**-120
"""Absolute error that any operation may have: results near underflow."""
FUNCTION_ROUNDINGS = 16
"""Roundings of a function that isn't one of IEEE 754's, as IREE's polynomials and GPUs compute them."""
QUOTIENT_ROUNDINGS = 4
"""Of divisions and square roots, which GPUs don't round correctly."""
ERF_ERROR = 2e-6
"""Absolute, of IREE's polynomial."""


@dataclass(frozen=True)
class Bounded:
    """Numbers, and how far from them float32's may lie."""

    value: Array
    error: Array

    @staticmethod
    def exact(value: Any) -> Bounded:
        array = np.asarray(value, np.float64)
        return Bounded(array, np.zeros_like(array))

    def mapped(self, change: Callable[[Array], Array]) -> Bounded:
        """The same `change` of shape or order made to values and errors."""
        return Bounded(change(self.value), change(self.error))

    @property
    def magnitude(self) -> Array:
        return np.abs(self.value) + self.error


def rounded(value: Array, error: Array, roundings: Any = 1) -> Bounded:
    error = error + roundings * ROUNDOFF * (np.abs(value) + error) + LEAST
    # What isn't bounded may be infinite, and its product with zero no number.
    return Bounded(value, np.where(np.isnan(error), np.inf, error))


def add(a: Bounded, b: Bounded) -> Bounded:
    return Bounded(a.value + b.value, _error_of_sum(a, b))


def subtract(a: Bounded, b: Bounded) -> Bounded:
    return Bounded(a.value - b.value, _error_of_sum(a, b))


def _error_of_sum(a: Bounded, b: Bounded) -> Array:
    """Also where `a` is a sum whose constant is added to a constant `b` first: each addition then rounds what
    may be as large as both together."""
    return a.error + b.error + 2 * ROUNDOFF * (a.magnitude + b.magnitude) + LEAST


def multiply(a: Bounded, b: Bounded) -> Bounded:
    with np.errstate(invalid="ignore"):
        error = np.abs(a.value) * b.error + a.error * np.abs(b.value) + a.error * b.error
    return rounded(a.value * b.value, error)


def divide(a: Bounded, b: Bounded) -> Bounded:
    quotient = a.value / b.value
    least = np.abs(b.value) - b.error
    error = np.where(
        least > 0, (a.error + np.abs(quotient) * b.error) / np.where(least > 0, least, 1), np.inf
    )
    return rounded(quotient, error, QUOTIENT_ROUNDINGS)


def maximum(a: Bounded, b: Bounded) -> Bounded:
    return Bounded(np.maximum(a.value, b.value), np.maximum(a.error, b.error))


def minimum(a: Bounded, b: Bounded) -> Bounded:
    return Bounded(np.minimum(a.value, b.value), np.maximum(a.error, b.error))


def negate(a: Bounded) -> Bounded:
    return Bounded(-a.value, a.error)


def absolute(a: Bounded) -> Bounded:
    return Bounded(np.abs(a.value), a.error)


def square_root(a: Bounded) -> Bounded:
    root = np.sqrt(np.maximum(a.value, 0))
    lower = np.sqrt(np.maximum(a.value - a.error, 0))
    upper = np.sqrt(np.maximum(a.value, 0) + a.error)
    return rounded(root, np.maximum(root - lower, upper - root), QUOTIENT_ROUNDINGS)


def exponential(a: Bounded) -> Bounded:
    value = np.exp(a.value)
    error = np.exp(a.value + a.error) - value
    return rounded(value, error, FUNCTION_ROUNDINGS + 2 * np.abs(a.value))


def hyperbolic_tangent(a: Bounded) -> Bounded:
    # Its slope is 1 at most.
    return rounded(np.tanh(a.value), a.error, FUNCTION_ROUNDINGS)


_erf = np.vectorize(__import__("math").erf, otypes=[np.float64])


def error_function(a: Bounded) -> Bounded:
    return rounded(_erf(a.value), a.error * 2 / np.sqrt(np.pi) + ERF_ERROR)


def select_greater(a: Bounded, b: Bounded, chosen: Bounded, other: Bounded) -> Bounded:
    """`chosen` where a > b, else `other`."""
    is_greater = a.value > b.value
    unsure = np.abs(a.value - b.value) <= a.error + b.error
    either = np.abs(chosen.value - other.value) + np.maximum(chosen.error, other.error)
    error = np.where(unsure, either, np.where(is_greater, chosen.error, other.error))
    return Bounded(np.where(is_greater, chosen.value, other.value), error)


FUNCTIONS: Mapping[str, Callable[..., Bounded]] = {
    "add": add,
    "sub": subtract,
    "mul": multiply,
    "div": divide,
    "max": maximum,
    "min": minimum,
    "neg": negate,
    "abs": absolute,
    "sqrt": square_root,
    "exp": exponential,
    "tanh": hyperbolic_tangent,
    "erf": error_function,
    "select_greater": select_greater,
}


def total(a: Bounded, axes: Sequence[int]) -> Bounded:
    """The sum along `axes`, in any order."""
    axis = tuple(axes)
    terms = int(np.prod([a.value.shape[d] for d in axis]))
    error = a.error.sum(axis) + terms * ROUNDOFF * a.magnitude.sum(axis)
    return Bounded(a.value.sum(axis), error + LEAST)


def largest(a: Bounded, axes: Sequence[int]) -> Bounded:
    axis = tuple(axes)
    return Bounded(a.value.max(axis), a.error.max(axis))
