"""Which numbers of floating point a value can be, as far as what bounds it tells."""

from __future__ import annotations

from math import inf

from iree.winograd.dialect.bindings import ir

from .constants import scalar_constant
from .navigation import defining_operation

Range = tuple[float, float]

BOUNDS = {"arith.maximumf": max, "arith.minimumf": min}
"""The operations that bound a number, and what they make of the ends of a range."""


def number_range(number: ir.Value) -> Range:
    """The least and the largest that a number can be."""
    constant, definition = scalar_constant(number), defining_operation(number)
    if constant is not None:
        return constant, constant
    bound = None if definition is None else BOUNDS.get(definition.name)
    if definition is None or bound is None:
        return -inf, inf
    (low, high), (other_low, other_high) = map(number_range, definition.operands)
    return bound(low, other_low), bound(high, other_high)
