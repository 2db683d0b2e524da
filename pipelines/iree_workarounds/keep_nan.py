"""Have maxima and minima be NaN where one of their numbers is, for targets where IREE's code loses it."""

from __future__ import annotations

from iree.winograd.dialect import ops
from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import walk

from ..backends.module_backend import supported_backend

_BODIES = ("linalg.generic", "linalg.map", "linalg.reduce", ops.OutputTransformOp.OPERATION_NAME)
"""What has a body of its own; those of named operations are as their names say."""
_BEFORE = {
    "arith.maximumf": arith.CmpFPredicate.UGT,
    "arith.minimumf": arith.CmpFPredicate.ULT,
}
"""The comparison by which the first of two numbers is the result; it holds for a NaN."""


@register_pass("winograd-keep-nan")
class KeepNan:
    """Have maxima and minima be NaN where one of their numbers is, for targets where IREE's code loses it.

    Of a NaN and another number IREE's code for sm_90a gives the other number. Comparisons don't:

        %r = arith.maximumf %a, %b : f32
      becomes
        %is_larger = arith.cmpf ugt, %a, %b : f32
        %larger = arith.select %is_larger, %a, %b : f32
        %is_nan = arith.cmpf uno, %b, %b : f32
        %r = arith.select %is_nan, %b, %larger : f32
    """

    def run(self, module: ir.Operation) -> None:
        bodies = [each for each in walk(module) if each.name in _BODIES and _extrema(each)]
        backend = supported_backend(module)
        loses_nan = backend is not None and backend.iree_code.extrema_lose_nan
        rewrite_each("body", bodies, lambda body: _compare(body) if loses_nan else None)


def _extrema(body: ir.Operation) -> list[ir.Operation]:
    return [each for each in walk(body) if each.name in _BEFORE]


def _compare(body: ir.Operation) -> None:
    for extremum in _extrema(body):
        first, second = extremum.operands
        with ir.InsertionPoint(extremum), extremum.location:
            is_first = arith.cmpf(_BEFORE[extremum.name], first, second)
            chosen = arith.select(is_first, first, second)
            is_nan = arith.cmpf(arith.CmpFPredicate.UNO, second, second)
            kept = arith.select(is_nan, second, chosen)
        extremum.results[0].replace_all_uses_with(kept)
        extremum.erase()
