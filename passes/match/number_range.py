"""Which numbers of floating point a value can be, as far as what bounds it tells."""

from __future__ import annotations

from math import inf

from iree.winograd.dialect.bindings import ir

from .bounds import match_bound
from .constants import scalar_constant
from .navigation import defining_operation

Range = tuple[float, float]

_ROUNDED = ("math.ceil", "math.floor", "math.round", "math.roundeven", "math.trunc")
"""Operations that give integers, and never less for a larger number."""
_OF_INTEGERS = ("arith.addf", "arith.subf")
_EXTREMA = {"arith.maximumf": max, "arith.minimumf": min}
"""Of two numbers neither of which is constant: what gives one of them where the other is NaN isn't known."""
_MOST_EXACT = 256
"""Up to which all types of floating point have all integers."""


def number_range(number: ir.Value) -> Range:
    """The least and the largest that a number can be, if it is one."""
    constant, definition = scalar_constant(number), defining_operation(number)
    if constant is not None:
        return constant, constant
    if definition is None:
        return -inf, inf
    if definition.name == "math.exp":
        return 0.0, inf
    if (bound := match_bound(definition)) is not None:
        low, high = number_range(bound.number)
        return bound.extremum(low, bound.limit), bound.extremum(high, bound.limit)
    if definition.name == "arith.addf":
        (low, high), (other_low, other_high) = map(number_range, definition.operands)
        return _sum(low, other_low, -inf), _sum(high, other_high, inf)
    if (extremum := _EXTREMA.get(definition.name)) is None:
        return -inf, inf
    (low, high), (other_low, other_high) = map(number_range, definition.operands)
    return extremum(low, other_low), extremum(high, other_high)


def _sum(bound: float, other: float, unknown: float) -> float:
    """Of two bounds, if sums of numbers within them are rounded to no number beyond it."""
    total = bound + other
    return total if total.is_integer() and abs(total) <= _MOST_EXACT else unknown


def is_integral(number: ir.Value) -> bool:
    """Whether a number is surely an integer, or none at all."""
    constant, definition = scalar_constant(number), defining_operation(number)
    if constant is not None:
        return constant == round(constant)
    if definition is None:
        return False
    if definition.name in _ROUNDED:
        return True
    if (bound := match_bound(definition)) is not None:
        return bound.limit == round(bound.limit) and is_integral(bound.number)
    is_known = definition.name in _OF_INTEGERS or definition.name in _EXTREMA
    return is_known and all(map(is_integral, definition.operands))
