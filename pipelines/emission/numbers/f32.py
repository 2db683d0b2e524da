"""Single precision: stored as it is computed with."""

from __future__ import annotations

from collections.abc import Mapping

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.pipelines.emission.functions import error_function, exponential
from iree.winograd.pipelines.emission.intrinsic import call_intrinsic
from iree.winograd.pipelines.emission.vectors import constant_like

from .number import Function, Number

_ESTIMATE = "llvm.x86.avx512.rcp14.ps.512"
_ESTIMATED_LANES = 16
_ESTIMATED_DIGITS = 8
"""Results that are rounded to so many may be off by the estimate: 2^-14 of them, a sixtieth of a unit."""


class SinglePrecision(Number):
    """Numbers of 24 bits, whose exponents have 8."""

    def functions(self, fused_multiply_add: bool) -> Mapping[str, Function]:
        return {
            "math.exp": lambda value, digits: exponential(value, fused_multiply_add, digits=digits),
            "math.erf": lambda value, digits: error_function(value, fused_multiply_add),
        }


class EstimatedSinglePrecision(SinglePrecision):
    """The same where the processor estimates reciprocals (AVX-512): a division takes as many operations, and
    waits for longer."""

    def reciprocal(self, value: ir.Value, digits: int, least: float) -> ir.Value:
        if digits > _ESTIMATED_DIGITS or ir.VectorType(value.type).shape[0] != _ESTIMATED_LANES:
            return super().reciprocal(value, digits, least)
        lanes = arith.constant(ir.IntegerType.get_signless(_ESTIMATED_LANES), -1)
        return call_intrinsic(_ESTIMATE, [value, constant_like(value, 0.0), lanes], [value.type]).result


F32 = SinglePrecision("f32")
ESTIMATED_F32 = EstimatedSinglePrecision("f32")
