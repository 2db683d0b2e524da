"""How numbers become high and low parts: of quads fp16 ones, scaled by powers of two, or those of TF32.

Or rounded numbers, fp16 or bf16.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from iree.winograd.dialect.bindings import arith, ir, math, vector
from iree.winograd.pipelines.emission.vectors import constant_like, vector_type
from iree.winograd.pipelines.gpu.device.matrix_unit import MATRIX_FACTORS
from iree.winograd.pipelines.gpu.device.memory import QUAD, quad_type
from iree.winograd.pipelines.gpu.packing.split import (
    MAX_EXPONENT_FIELD,
    MIN_EXPONENT_FIELD,
    SPLIT,
    scale_offset,
)
from iree.winograd.pipelines.gpu.schedules.matrix import MatrixSchedule

MANTISSA_BITS = 23
_HALF_MANTISSA_BITS = 10
"""Of fp16, and of TF32."""
_LOW_BITS = MANTISSA_BITS - _HALF_MANTISSA_BITS
"""Of fp32's numbers, those that TF32 lacks."""
_EXPONENT_BIAS = 127
_INFINITY = 0x7F800000
"""Its bits."""


def parts_of(scaled: ir.Value, schedule: MatrixSchedule) -> list[ir.Value]:
    """The high and the low parts of a quad within the range of what is multiplied, or rounded numbers.

    Or of more than a quad.
    """
    if schedule.parts == 1:
        return [schedule.factors.narrowed(scaled)]
    width = ir.VectorType(scaled.type).shape[0]
    halves, low_bits = vector_type(width, MATRIX_FACTORS.type), schedule.unit.low_bits
    if low_bits == 0:
        rounded = _rounded(scaled)
        return [arith.truncf(halves, each) for each in (rounded, arith.subf(scaled, rounded))]
    high = arith.truncf(halves, scaled)
    rest = arith.subf(scaled, arith.extf(scaled.type, high))
    return [high, arith.truncf(halves, arith.mulf(rest, constant_like(rest, 2.0**low_bits)))]


def _rounded(number: ir.Value) -> ir.Value:
    """A number of fp32, or the quad, with 11 significant bits each.

    By integers: NVIDIA's compiler for Vulkan leaves out conversions to fp16 and back.
    """
    is_quad = isinstance(number.type, ir.VectorType)
    type_ = vector_type(QUAD, integer_type()) if is_quad else integer_type()
    bits = arith.addi(arith.bitcast(type_, number), integers(1 << (_LOW_BITS - 1), type_))
    return arith.bitcast(number.type, arith.andi(bits, integers(-(1 << _LOW_BITS), type_)))


def single_parts_of(element: ir.Value, count: int) -> list[ir.Value]:
    """The nearest number of TF32 and what is left, which matrix units cut off to TF32; or the former alone.

    A number has all but the last of its bits, at worst: TF32's 11, and those of what is left, with its sign.
    """
    high = _rounded(element)
    return [high] if count == 1 else [high, arith.subf(element, high)]


# Magnitudes are compared as integers, in the order of which floating-point numbers without a sign are.


def integer_type() -> ir.Type:
    return ir.IntegerType.get_signless(32)


def integer(value: int) -> ir.Value:
    return arith.constant(integer_type(), value)


def integers(value: int, like: ir.Type | None = None) -> ir.Value:
    """A constant of the type `like`, which is that of one integer or of a quad; of a quad by default."""
    type_ = vector_type(QUAD, integer_type()) if like is None else like
    if not isinstance(type_, ir.VectorType):
        return integer(value)
    attribute = ir.IntegerAttr.get(integer_type(), value)
    return arith.constant(type_, ir.DenseElementsAttr.get_splat(type_, attribute))


def magnitude(quad: ir.Value) -> ir.Value:
    """The bits of a quad's elements without their signs."""
    bits = arith.bitcast(vector_type(QUAD, integer_type()), quad)
    return arith.andi(bits, integers(0x7FFFFFFF))


def finite_magnitude(quad: ir.Value) -> ir.Value:
    """The same, zeros for infinities and what is not a number."""
    bits = magnitude(quad)
    is_finite = arith.cmpi(arith.CmpIPredicate.ult, bits, integers(_INFINITY))
    return arith.select(is_finite, bits, integers(0))


def largest_of(magnitudes: Sequence[ir.Value]) -> ir.Value:
    """Of each lane."""
    return reduce(arith.maxui, magnitudes)


def largest_of_quad(magnitudes: ir.Value) -> ir.Value:
    """Of all lanes."""
    return reduce(arith.maxui, [vector.extract(magnitudes, [], [i]) for i in range(QUAD)])


def largest_magnitude(quads: Sequence[ir.Value]) -> ir.Value:
    """The largest magnitude in quads, as its bits; what is not a number doesn't count, infinities do.

    By an instruction for each element, which knows magnitudes.
    """
    lanes = reduce(arith.maxnumf, map(math.absf, quads))
    largest = reduce(arith.maxnumf, [vector.extract(lanes, [], [i]) for i in range(QUAD)])
    return arith.bitcast(integer_type(), largest)


def scales_for(largest: ir.Value, growth: int) -> tuple[ir.Value, ir.Value]:
    """The scale for elements up to a magnitude before transforms, and its inverse; or quads."""
    type_ = largest.type
    is_quad = isinstance(type_, ir.VectorType)
    floats = quad_type(SPLIT.type) if is_quad else SPLIT.type
    exponent = arith.shrui(largest, integers(MANTISSA_BITS, type_))
    exponent = arith.maxui(exponent, integers(MIN_EXPONENT_FIELD, type_))
    exponent = arith.minui(exponent, integers(MAX_EXPONENT_FIELD, type_))
    offset = scale_offset(growth)

    def power_of_two(field: ir.Value) -> ir.Value:
        return arith.bitcast(floats, arith.shli(field, integers(MANTISSA_BITS, type_)))

    scale = arith.addi(exponent, integers(_EXPONENT_BIAS - offset, type_))
    inverse = arith.subi(integers(_EXPONENT_BIAS + offset, type_), exponent)
    return power_of_two(scale), power_of_two(inverse)
