"""In which types of numbers layers may multiply, as users ask for it."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Literal, get_args

Precision = Literal["as-written", "f32", "f16", "bf16", "fastest"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)

PRECISION_ERRORS: Mapping[Precision, float | None] = {
    "as-written": None,
    "f32": None,
    "f16": 5e-4,
    "bf16": 4e-3,
    "fastest": inf,
}
"""The predicted error that layers may have, about twice that of a direct convolution of operands that are
rounded to the type; None for the target's limit."""


def given_error(precision: Precision, max_relative_error: float | None) -> float | None:
    """The limit on errors that a user gives: by a number, or else by a precision; None for the target's."""
    return PRECISION_ERRORS[precision] if max_relative_error is None else max_relative_error


def is_layer_precision(text: str) -> bool:
    """Whether it is `PATTERN=PRECISION`."""
    pattern, separator, precision = text.rpartition("=")
    return bool(pattern and separator) and precision in PRECISIONS
