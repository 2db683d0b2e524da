"""IEEE's half precision: stored, and computed with in single precision, which holds all of its numbers."""

from __future__ import annotations

from iree.winograd.dialect.bindings import arith, ir

from .f32 import F32
from .number import Number, with_element


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


F16 = HalfPrecision("f16")
