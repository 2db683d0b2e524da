"""Numbers that are moved and not computed with, as the bits that they are stored as."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.bindings import arith, ir

from .known import Numbers
from .number import Number, with_element


@dataclass(frozen=True)
class Bits(Number):
    """Numbers whose bits are kept, whatever they stand for, on any processor.

    As f32 those of signalling NaNs would change, and without instructions for it each would be converted.
    """

    @property
    def computed(self) -> Number:
        return Number(f"i{8 * self.bytes}")

    def widened(self, stored: ir.Value) -> ir.Value:
        return arith.bitcast(with_element(stored.type, self.computed.type), stored)

    def narrowed(self, computed: ir.Value) -> ir.Value:
        return arith.bitcast(with_element(computed.type, self.type), computed)


HALF_BITS: Numbers = {name: Bits(name) for name in ("f16", "bf16")}
"""For any processor."""
