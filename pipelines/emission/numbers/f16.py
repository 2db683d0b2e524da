"""IEEE's half precision: stored, and computed with in single precision, which holds all of its numbers."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from iree.winograd.dialect.bindings import arith, ir

from .f32 import F32
from .number import Number, with_element
from .rounding import rounded_by_product

_DIGITS = 11
_LARGEST = 65504.0


class HalfPrecision(Number):
    """Numbers of 11 bits, whose exponents have 5."""

    @property
    def needs_instructions(self) -> bool:
        return True

    @property
    def computed(self) -> Number:
        return F32

    def widened(self, stored: ir.Value) -> ir.Value:
        return arith.extf(with_element(stored.type, F32.type), stored)

    def narrowed(self, computed: ir.Value) -> ir.Value:
        return arith.truncf(with_element(computed.type, self.type), computed)


@dataclass(frozen=True)
class SummedHalfPrecision(HalfPrecision):
    """The same where small numbers that are rounded stay in registers: by a product and a difference.

    A pair of conversions takes as long as four of these, on processors with one unit of such for longer.
    Numbers below the least normal one (6.1e-5) keep more digits, and a zero loses its sign. What isn't known
    to have a number, which is infinity from 65520 on, is converted.
    """

    fused_multiply_add: bool = False

    def rounded(self, computed: ir.Value, most: float = inf) -> ir.Value:
        if most > _LARGEST:
            return super().rounded(computed, most)
        return rounded_by_product(computed, _DIGITS, self.fused_multiply_add)


F16 = HalfPrecision("f16")
