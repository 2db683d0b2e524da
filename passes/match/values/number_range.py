"""Which numbers of floating point a value can be, as far as what bounds it tells."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from math import inf, isnan
from operator import add, mul, sub, truediv
from types import MappingProxyType

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.navigation import defining_operation
from iree.winograd.passes.match.values.bounds import match_bound
from iree.winograd.passes.match.values.constants import scalar_constant

Range = tuple[float, float]

_ROUNDED = ("math.ceil", "math.floor", "math.round", "math.roundeven", "math.trunc")
"""Operations that give integers, and never less for a larger number."""
_OF_INTEGERS = ("arith.addf", "arith.subf")
_EXTREMA = {"arith.maximumf": max, "arith.minimumf": min}
"""Of two numbers neither of which is constant: what gives one of them where the other is NaN isn't known."""
_MOST_EXACT = 256
"""Up to which all types of floating point have all integers."""
_ANY = (-inf, inf)
_FUNCTIONS: Mapping[str, Range] = MappingProxyType(
    {"math.exp": (0.0, inf), "math.erf": (-1.0, 1.0), "math.tanh": (-1.0, 1.0)}
)
"""What functions give of any number."""
_ARITHMETIC: Mapping[str, Callable[[float, float], float]] = MappingProxyType(
    {"arith.addf": add, "arith.subf": sub, "arith.mulf": mul, "arith.divf": truediv}
)
"""Operations that are least and largest for the least or largest of each operand: of divisors beside zero."""


def number_range(number: ir.Value) -> Range:
    """The least and the largest that a number can be, if it is one.

    That of a sigmoid is 0 to 1: one over one and an exponential.
    """
    constant, definition = scalar_constant(number), defining_operation(number)
    if constant is not None:
        return constant, constant
    if definition is None:
        return _ANY
    if definition.name in _FUNCTIONS:
        return _FUNCTIONS[definition.name]
    if (bound := match_bound(definition)) is not None:
        low, high = number_range(bound.number)
        return bound.extremum(low, bound.limit), bound.extremum(high, bound.limit)
    if (extremum := _EXTREMA.get(definition.name)) is not None:
        (low, high), (other_low, other_high) = map(number_range, definition.operands)
        return extremum(low, other_low), extremum(high, other_high)
    if (operation := _ARITHMETIC.get(definition.name)) is None:
        return _ANY
    left, right = map(number_range, definition.operands)
    if definition.name == "arith.divf" and right[0] <= 0 <= right[1]:
        return _ANY
    ends = [operation(*each) for each in product(left, right)]
    return _ANY if any(map(isnan, ends)) else (_exact(min(ends), -inf), _exact(max(ends), inf))


def _exact(bound: float, unknown: float) -> float:
    """What bounds exact results, if results that are rounded are not beyond it."""
    return bound if bound.is_integer() and abs(bound) <= _MOST_EXACT else unknown


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
