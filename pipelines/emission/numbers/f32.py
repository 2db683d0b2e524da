"""Single precision: stored as it is computed with."""

from __future__ import annotations

from collections.abc import Mapping

from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.emission.functions import (
    error_function,
    estimated_reciprocal,
    exponential,
    exponential_by_table,
    one_and_error_by_table,
)

from .number import Function, Number

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
    """The same with AVX-512, which shuffles tables that a register holds, and estimates reciprocals: a
    division takes as many operations, and waits for longer."""

    def functions(self, fused_multiply_add: bool) -> Mapping[str, Function]:
        known = super().functions(fused_multiply_add)

        def exponential_of(value: ir.Value, digits: int) -> ir.Value:
            if _is_short(value, digits):
                return exponential_by_table(value)
            return known["math.exp"](value, digits)

        return {**known, "math.exp": exponential_of}

    def one_and_error(self, value: ir.Value, digits: int) -> ir.Value | None:
        return one_and_error_by_table(value) if _is_short(value, digits) else None

    def reciprocal(self, value: ir.Value, digits: int, least: float) -> ir.Value:
        if not _is_short(value, digits):
            return super().reciprocal(value, digits, least)
        return estimated_reciprocal(value)


def _is_short(value: ir.Value, digits: int) -> bool:
    """Whether a vector is as long as tables and estimates are, and so few digits are kept."""
    return digits <= _ESTIMATED_DIGITS and ir.VectorType(value.type).shape[0] == _ESTIMATED_LANES


F32 = SinglePrecision("f32")
ESTIMATED_F32 = EstimatedSinglePrecision("f32")
