"""Softmax of rows or columns, which arrives as two reductions with elementwise operations between them."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.navigation import defining_operation
from iree.winograd.passes.match.rows import Combined, combined_with_reduced, is_reduced, with_body
from iree.winograd.passes.match.sizes import is_dynamic


@dataclass(frozen=True)
class Softmax:
    """`exp(x - max(x)) / sum(exp(x - max(x)))` of `source`, f32, along its dimension `dimension`."""

    source: ir.Value
    dimension: int
    result: ir.Value

    @property
    def shape(self) -> list[int]:
        """Of source and result."""
        return list(ir.RankedTensorType(self.source.type).shape)

    @property
    def length(self) -> int:
        """Elements that share a sum."""
        return self.shape[self.dimension]


def match_softmax(division: ir.Operation) -> Softmax | None:
    """The softmax whose last operation `division` is, of sizes that but for the first are static.

    That one isn't the dimension along which it is.
    """
    divided = combined_with_reduced(division, ["arith.divf"])
    if divided is None:
        return None
    exponentials, dimension = divided.whole, divided.dimension
    source = _source_of(exponentials, dimension)
    if source is None or not is_reduced(divided.reduced, exponentials, "arith.addf", 0.0, dimension):
        return None
    type_ = ir.RankedTensorType(source.type)
    if str(type_.element_type) != "f32" or any(map(is_dynamic, type_.shape[1:])):
        return None
    if dimension == 0 and type_.is_dynamic_dim(0):
        return None
    return Softmax(source, dimension, division.results[0])


def _source_of(exponentials: ir.Value, dimension: int) -> ir.Value | None:
    """What they are of, before the largest along a dimension was subtracted from each; None for others."""
    operation = defining_operation(exponentials)
    if operation is None:
        return None
    differences = combined_with_reduced(operation, ["arith.subf", "math.exp"])
    if differences is None:
        differences = _differences(operation)
    if differences is None or differences.dimension != dimension:
        return None
    source = differences.whole
    return source if is_reduced(differences.reduced, source, "arith.maximumf", -inf, dimension) else None


def _differences(exponential: ir.Operation) -> Combined | None:
    """The subtraction before an operation that computes exponentials alone."""
    elementwise = with_body(exponential, ["math.exp"])
    if elementwise is None or elementwise.indexing_maps[0] != elementwise.indexing_maps[-1]:
        return None
    subtraction = defining_operation(elementwise.inputs[0])
    return None if subtraction is None else combined_with_reduced(subtraction, ["arith.subf"])
