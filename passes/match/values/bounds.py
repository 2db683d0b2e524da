"""Operations on scalars that keep a number within a bound, as torch-mlir, IREE and we write them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.passes.match.navigation import defining_operation
from iree.winograd.passes.match.values.constants import scalar_constant

_EXTREMA: dict[str, tuple[Callable[[float, float], float], bool]] = {
    "arith.maximumf": (max, True),
    "arith.maxnumf": (max, False),
    "arith.minimumf": (min, True),
    "arith.minnumf": (min, False),
}
_Predicate = arith.CmpFPredicate
_LARGER = (_Predicate.OGT, _Predicate.OGE, _Predicate.UGT, _Predicate.UGE)
_SMALLER = (_Predicate.OLT, _Predicate.OLE, _Predicate.ULT, _Predicate.ULE)
_OF_NAN = (_Predicate.UGT, _Predicate.UGE, _Predicate.ULT, _Predicate.ULE)
"""Those that hold for a NaN."""


@dataclass(frozen=True)
class Bound:
    """A number, or `limit` where that is the larger of both, with `max`, or the smaller, with `min`."""

    number: ir.Value
    extremum: Callable[[float, float], float]
    """`max` or `min`."""
    limit: float
    keeps_nan: bool
    """Whether a NaN stays one; else it becomes `limit`."""
    operations: tuple[ir.Operation, ...]
    """Those that it is made of, the last one's result being the bounded number."""


def match_bound(operation: ir.Operation) -> Bound | None:
    """The bound that `operation` keeps a number within, a constant; None where it does anything else."""
    if operation.name in _EXTREMA:
        extremum, keeps_nan = _EXTREMA[operation.name]
        left, right = operation.operands
        limit, number = scalar_constant(right), left
        if limit is None:
            limit, number = scalar_constant(left), right
        return None if limit is None else Bound(number, extremum, limit, keeps_nan, (operation,))
    return _match_selection(operation) if operation.name == "arith.select" else None


def _match_selection(selection: ir.Operation) -> Bound | None:
    """That of a number and a constant one is selected, by a comparison of the two."""
    condition, chosen, other = selection.operands
    comparison = defining_operation(condition)
    if comparison is None or comparison.name != "arith.cmpf" or len(list(condition.uses)) != 1:
        return None
    chooses_number = scalar_constant(chosen) is None
    number, limit = (chosen, scalar_constant(other)) if chooses_number else (other, scalar_constant(chosen))
    left, right = comparison.operands
    is_left = left == number
    if limit is None or not (is_left or right == number):
        return None
    if scalar_constant(right if is_left else left) != limit:
        return None
    predicate = _Predicate(ir.IntegerAttr(comparison.attributes["predicate"]).value)
    if predicate not in (*_LARGER, *_SMALLER):
        return None
    chosen_is_larger = (predicate in _LARGER) == (is_left == chooses_number)
    keeps_nan = (predicate in _OF_NAN) == chooses_number
    return Bound(number, max if chosen_is_larger else min, limit, keeps_nan, (comparison, selection))
