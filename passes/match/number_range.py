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
    if (extremum := _EXTREMA.get(definition.name)) is None:
        return -inf, inf
    (low, high), (other_low, other_high) = map(number_range, definition.operands)
    return extremum(low, other_low), extremum(high, other_high)


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
