"""Vectors: constants, products, lanes that are left out, and loops over elements by vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import copysign

from iree.winograd.dialect.bindings import arith, ir, vector

from .control_flow import loop
from .index import Index, IndexLike, shared_constant


def vector_type(width: int, element: ir.Type) -> ir.VectorType:
    return ir.VectorType.get([width], element)


def splat(value: float, width: int, element: ir.Type) -> ir.Value:
    """A constant vector of `width` equal lanes of a floating-point type."""
    type_, number = vector_type(width, element), float(value)

    def build() -> ir.Value:
        lane = ir.FloatAttr.get(type_.element_type, number)
        return arith.constant(type_, ir.DenseElementsAttr.get_splat(type_, lane))

    # Zeros of either sign are equal, but no one constant.
    return shared_constant((number, copysign(1.0, number), type_), build)


def constant_like(value: ir.Value, number: float) -> ir.Value:
    """A floating-point constant of the type of `value`, a scalar or a vector."""
    if isinstance(value.type, ir.VectorType):
        return splat(number, ir.VectorType(value.type).shape[0], value.type.element_type)
    return arith.constant(value.type, float(number))


def broadcast(scalar: ir.Value, width: int) -> ir.Value:
    return vector.broadcast(vector_type(width, scalar.type), scalar)


def multiply_add(a: ir.Value, b: ir.Value, addend: ir.Value, fused: bool) -> ir.Value:
    """a * b + addend; without FMA in the target a fused one would be a call into a library."""
    return vector.fma(a, b, addend) if fused else arith.addf(arith.mulf(a, b), addend)


@dataclass(frozen=True)
class LaneMask:
    """Lanes of a vector for which something is done: an SSA value, a vector of `i1`."""

    value: ir.Value

    @staticmethod
    def between(begin: IndexLike, end: IndexLike, width: int) -> LaneMask:
        """Of `width` lanes those from `begin` to `end`, either of which may lie outside of the vector."""
        integer = ir.IntegerType.get_signless(32)
        type_ = ir.VectorType.get([width], integer)
        lanes = arith.constant(
            type_,
            ir.DenseElementsAttr.get([ir.IntegerAttr.get(integer, i) for i in range(width)], type_),
        )
        first, last = (
            vector.broadcast(type_, arith.index_cast(integer, Index.of(bound).value))
            for bound in (begin, end)
        )
        return LaneMask(
            arith.andi(
                arith.cmpi(arith.CmpIPredicate.sge, lanes, first),
                arith.cmpi(arith.CmpIPredicate.slt, lanes, last),
            )
        )


def vector_width_for(extent: int, widest: int) -> int:
    """The widest power of two of lanes, at most `widest`, that fits in `extent` elements."""
    width = widest
    while width > extent:
        width //= 2
    return width


def for_each_vector(extent: int, width: int, body: Callable[[Index], None], name: str) -> None:
    """Covers `extent >= width` elements by vectors; the last one overlaps its neighbour rather than run over.

    Overlap instead of masks: every access is in bounds and unmasked on every target, and what is written
    twice is written with the same values.
    """
    with loop(extent, width, name) as start:
        body(start if extent % width == 0 else start.minimum(extent - width))
