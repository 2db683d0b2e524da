"""The upper halves of numbers of single precision: stored, and computed with as those.

Intel, Architecture Instruction Set Extensions Programming Reference, VCVTNEPS2BF16.
"""

from __future__ import annotations

from iree.winograd.dialect.bindings import arith, ir

from .f32 import F32
from .number import Number, with_element

_BITS = 16
_BELOW_HALF = (1 << (_BITS - 1)) - 1
"""Added to what is cut off, it carries for what is more than a half, and with one more for a half."""
_QUIET = 1 << 22
"""What every NaN keeps of its bits, so that none becomes an infinity."""


class UpperHalf(Number):
    """Numbers of 8 bits, whose exponents have as many as those of f32; converted by integer operations."""

    @property
    def computed(self) -> Number:
        return F32

    def widened(self, stored: ir.Value) -> ir.Value:
        short, integer = (
            with_element(stored.type, ir.IntegerType.get_signless(bits)) for bits in (_BITS, 2 * _BITS)
        )
        bits = arith.shli(arith.extui(integer, arith.bitcast(short, stored)), _splat(_BITS, integer))
        return arith.bitcast(with_element(stored.type, F32.type), bits)

    def narrowed(self, computed: ir.Value) -> ir.Value:
        short, integer = (
            with_element(computed.type, ir.IntegerType.get_signless(bits)) for bits in (_BITS, 2 * _BITS)
        )
        bits = arith.bitcast(integer, computed)
        last = arith.andi(arith.shrui(bits, _splat(_BITS, integer)), _splat(1, integer))
        rounded = arith.addi(bits, arith.addi(last, _splat(_BELOW_HALF, integer)))
        is_nan = arith.cmpf(arith.CmpFPredicate.UNO, computed, computed)
        kept = arith.select(is_nan, arith.ori(bits, _splat(_QUIET, integer)), rounded)
        upper = arith.trunci(short, arith.shrui(kept, _splat(_BITS, integer)))
        return arith.bitcast(with_element(computed.type, self.type), upper)


class RoundedUpperHalf(UpperHalf):
    """The same where the processor has an instruction that rounds to them.

    It takes numbers below the least normal one for zeros, as f32's arithmetic does in IREE's workers.
    """

    def narrowed(self, computed: ir.Value) -> ir.Value:
        # IREE makes integer operations of `arith.truncf`.
        type_ = with_element(computed.type, self.type)
        return ir.Operation.create("llvm.fptrunc", [type_], [computed]).result


BF16 = UpperHalf("bf16")
ROUNDED_BF16 = RoundedUpperHalf("bf16")


def _splat(number: int, type_: ir.Type) -> ir.Value:
    if not isinstance(type_, ir.VectorType):
        return arith.constant(type_, number)
    lane = ir.IntegerAttr.get(type_.element_type, number)
    return arith.constant(type_, ir.DenseElementsAttr.get_splat(type_, lane))
