"""The upper halves of numbers of single precision: stored, and computed with as those.

Intel, Architecture Instruction Set Extensions Programming Reference, VCVTNEPS2BF16.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
from iree.winograd.dialect.algebra.bf16 import BITS
from iree.winograd.dialect.bindings import arith, ir, vector
from iree.winograd.passes.match.navigation import defining_operation
from iree.winograd.passes.match.values.conversions import holds
from iree.winograd.passes.match.values.half_precision import KEEPING_HALF
from iree.winograd.pipelines.emission.intrinsic import call_intrinsic
from iree.winograd.pipelines.emission.vectors import constant_like, multiply_add

from .f32 import F32
from .number import Number, with_element
from .rounding import rounded_by_product

_BELOW_HALF = (1 << (BITS - 1)) - 1
"""Added to what is cut off, it carries for what is more than a half, and with one more for a half."""
_NAN = 0x7FC00000
"""What every NaN becomes: rounded, its bits may be those of another number."""
_EXPONENT = 0x7F800000
_DIGITS, _BIAS = 23, 127
"""Of f32: the bits behind the first one, and what is added to exponents."""
_DISTANCE = float(3 << BITS - 1)
"""So many times the power of two of a number of f32 lies in the middle of numbers whose last bit is the last
that bf16 has of it, and is even as such: what is added to it is rounded (Dekker, Numer. Math. 18, 1971)."""
_ROUNDING, _TWO_ROUNDED = "llvm.fptrunc", "llvm.x86.avx512bf16.cvtne2ps2bf16.512"
"""The operation of the processor's instruction, and the one of two vectors: the second comes first."""
_KEPT = 8
"""Digits of bf16."""
_MOST = 2.0**110
"""Up to which products by two to the power of what is cut off are finite."""
_MOST_EXPONENT = 86
"""That of the largest distance that any number of f32 may be added to."""


class UpperHalf(Number):
    """Numbers of 8 bits, whose exponents have as many as those of f32; converted by integer operations."""

    @property
    def computed(self) -> Number:
        return F32

    def widened(self, stored: ir.Value) -> ir.Value:
        short, integer = (
            with_element(stored.type, ir.IntegerType.get_signless(bits)) for bits in (BITS, 2 * BITS)
        )
        bits = arith.shli(arith.extui(integer, arith.bitcast(short, stored)), _splat(BITS, integer))
        return arith.bitcast(with_element(stored.type, F32.type), bits)

    def narrowed(self, computed: ir.Value) -> ir.Value:
        if (stored := _stored(computed)) is not None:
            return stored
        integer = with_element(computed.type, ir.IntegerType.get_signless(2 * BITS))
        bits = arith.bitcast(integer, computed)
        return _upper_half(bits if _is_upper_half(computed) else _rounded(computed, bits), self.type)


@dataclass(frozen=True)
class SummedUpperHalf(UpperHalf):
    """The same where rounded numbers stay in registers: by a sum and a difference, three operations.

    That takes bounds, without which infinity would become NaN. What isn't known to have any is added to no
    more than infinity stays with: numbers beyond 2^87 keep more digits than bf16 has, and are
    off by one of f32 at most. Those below the least normal one stay as they are, where arithmetic keeps them.
    A zero loses its sign.
    """

    fused_multiply_add: bool = False

    def narrowed_within(self, computed: ir.Value, most: float) -> ir.Value:
        """Half of the operations of a number that may be infinity or large."""
        if most > _MOST or _is_upper_half(computed):
            return self.narrowed(computed)
        rounded = rounded_by_product(computed, _KEPT, self.fused_multiply_add)
        integer = with_element(computed.type, ir.IntegerType.get_signless(2 * BITS))
        return _upper_half(arith.bitcast(integer, rounded), self.type)

    def rounded(self, computed: ir.Value, most: float = inf) -> ir.Value:
        if _is_upper_half(computed):
            return computed
        if most <= _MOST:
            return rounded_by_product(computed, _KEPT, self.fused_multiply_add)
        integer = with_element(computed.type, ir.IntegerType.get_signless(2 * BITS))
        exponent = arith.andi(arith.bitcast(integer, computed), _splat(_EXPONENT, integer))
        exponent = arith.minui(exponent, _splat(_MOST_EXPONENT + _BIAS << _DIGITS, integer))
        power, fused = arith.bitcast(computed.type, exponent), self.fused_multiply_add
        far = multiply_add(power, constant_like(computed, _DISTANCE), computed, fused)
        return multiply_add(power, constant_like(computed, -_DISTANCE), far, fused)


class RoundedUpperHalf(SummedUpperHalf):
    """The same where the processor has an instruction that rounds what is stored.

    It takes numbers below the least normal one for zeros, as f32's arithmetic does in IREE's workers. With
    what widens its results again it takes five operations.
    """

    def narrowed(self, computed: ir.Value) -> ir.Value:
        if (stored := _stored(computed)) is not None:
            return stored
        # IREE makes integer operations of `arith.truncf`.
        type_ = with_element(computed.type, self.type)
        return ir.Operation.create(_ROUNDING, [type_], [computed]).result

    def narrowed_within(self, computed: ir.Value, most: float) -> ir.Value:
        return self.narrowed(computed)

    @property
    def narrows_two(self) -> bool:
        return True

    def two_narrowed(self, first: ir.Value, second: ir.Value) -> ir.Value:
        """By one instruction, which takes as long as that of one vector. LLVM finds it for no operation."""
        halves = [_before_rounding(second), _before_rounding(first)]
        lanes = sum(ir.VectorType(half.type).shape[0] for half in halves)
        return call_intrinsic(_TWO_ROUNDED, halves, [ir.VectorType.get([lanes], self.type)]).result


class LargerPart(Number):
    """The bf16 nearest to a number, of two as near the larger one: the rest of f16 is one, too.

    Three operations, where the processor's instruction for rounding takes as long as four. What is widened of
    it is never read. Infinity stays one, its rest is NaN.
    """

    @property
    def computed(self) -> Number:
        return F32

    def rounded(self, computed: ir.Value, most: float = inf) -> ir.Value:
        integer = with_element(computed.type, ir.IntegerType.get_signless(2 * BITS))
        bits = arith.addi(arith.bitcast(integer, computed), _splat(1 << BITS - 1, integer))
        return arith.bitcast(computed.type, arith.andi(bits, _splat(-(1 << BITS), integer)))

    def narrowed(self, computed: ir.Value) -> ir.Value:
        return _upper_halves(self.rounded(computed))


class SmallerPart(LargerPart):
    """What the larger part leaves of a number of 16 bits: of f16 with its 11."""

    def narrowed(self, computed: ir.Value) -> ir.Value:
        return _upper_halves(arith.subf(computed, self.rounded(computed)))


BF16 = UpperHalf("bf16")
PARTS = (LargerPart("bf16"), SmallerPart("bf16"))
"""Of numbers of f16."""


def _rounded(number: ir.Value, bits: ir.Value) -> ir.Value:
    """The bits of a number of f32, whose upper half is that of the nearest one."""
    integer = bits.type
    last = arith.andi(arith.shrui(bits, _splat(BITS, integer)), _splat(1, integer))
    rounded = arith.addi(bits, arith.addi(last, _splat(_BELOW_HALF, integer)))
    is_nan = arith.cmpf(arith.CmpFPredicate.UNO, number, number)
    return arith.select(is_nan, _splat(_NAN, integer), rounded)


def _stored(number: ir.Value) -> ir.Value | None:
    """What an f32 number was widened from; None for any other."""
    value = number
    for name in ("arith.bitcast", "arith.shli", "arith.extui", "arith.bitcast"):
        definition = defining_operation(value)
        if definition is None or definition.name != name:
            return None
        value = definition.operands[0]
    element = value.type.element_type if isinstance(value.type, ir.VectorType) else value.type
    return value if isinstance(element, ir.BF16Type) else None


def _before_rounding(number: ir.Value) -> ir.Value:
    """What an f32 number was rounded from, if it was by the processor's instruction; else itself."""
    stored = _stored(number)
    rounding = None if stored is None else defining_operation(stored)
    return rounding.operands[0] if rounding is not None and rounding.name == _ROUNDING else number


def _upper_half(bits: ir.Value, half: ir.Type) -> ir.Value:
    """The bf16 that the bits of f32 numbers begin with."""
    short = with_element(bits.type, ir.IntegerType.get_signless(BITS))
    upper = arith.trunci(short, arith.shrui(bits, _splat(BITS, bits.type)))
    return arith.bitcast(with_element(bits.type, half), upper)


def _upper_halves(numbers: ir.Value) -> ir.Value:
    """Those of f32 numbers, as bf16: of a vector by one shuffle."""
    short = ir.IntegerType.get_signless(BITS)
    if isinstance(numbers.type, ir.VectorType):
        (width,) = numbers.type.shape
        halves = vector.bitcast(ir.VectorType.get([2 * width], short), numbers)
        upper = vector.shuffle(halves, halves, list(range(1, 2 * width, 2)))
    else:
        integer = ir.IntegerType.get_signless(2 * BITS)
        bits = arith.bitcast(integer, numbers)
        upper = arith.trunci(short, arith.shrui(bits, _splat(BITS, integer)))
    return arith.bitcast(with_element(numbers.type, ir.BF16Type.get()), upper)


def _is_upper_half(number: ir.Value) -> bool:
    """Whether the lower half of an f32 number is surely zero: it was widened, then kept as half precision."""
    if _stored(number) is not None:
        return True
    definition = defining_operation(number)
    if definition is None:
        return False
    if definition.name in KEEPING_HALF:
        chosen = [operand for operand in definition.operands if operand.type == number.type]
        return all(map(_is_upper_half, chosen))
    if definition.name != "arith.constant":
        return False
    value = definition.attributes["value"]
    lane = value.get_splat_value() if isinstance(value, ir.DenseElementsAttr) and value.is_splat else value
    return isinstance(lane, ir.FloatAttr) and holds(ir.BF16Type.get(), np.array([lane.value], np.float32))


def _splat(number: int, type_: ir.Type) -> ir.Value:
    if not isinstance(type_, ir.VectorType):
        return arith.constant(type_, number)
    lane = ir.IntegerAttr.get(type_.element_type, number)
    return arith.constant(type_, ir.DenseElementsAttr.get_splat(type_, lane))
