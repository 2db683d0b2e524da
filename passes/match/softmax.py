"""Softmax of rows, which arrives as two reductions with elementwise operations between them."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.navigation import defining_operation
from iree.winograd.passes.match.rows import combined_with_rows, is_reduced, with_body
from iree.winograd.passes.match.sizes import is_dynamic


@dataclass(frozen=True)
class Softmax:
    """`exp(x - max(x)) / sum(exp(x - max(x)))` of the rows of `source`, f32, along its last dimension."""

    source: ir.Value
    result: ir.Value


def match_softmax(division: ir.Operation) -> Softmax | None:
    """The softmax whose last operation `division` is, of sizes that but for the first are static."""
    divided = combined_with_rows(division, ["arith.divf"])
    if divided is None:
        return None
    exponentials, sums = divided
    source = _source_of(exponentials)
    if source is None or not is_reduced(sums, exponentials, "arith.addf", 0.0):
        return None
    type_ = ir.RankedTensorType(source.type)
    if str(type_.element_type) != "f32" or any(map(is_dynamic, type_.shape[1:])):
        return None
    return Softmax(source, division.results[0])


def _source_of(exponentials: ir.Value) -> ir.Value | None:
    """What they are of, before the largest element of a row was subtracted from each; None for others."""
    operation = defining_operation(exponentials)
    if operation is None:
        return None
    differences = combined_with_rows(operation, ["arith.subf", "math.exp"])
    if differences is None:
        elementwise = with_body(operation, ["math.exp"])
        if elementwise is None or elementwise.indexing_maps[0] != elementwise.indexing_maps[-1]:
            return None
        subtraction = defining_operation(elementwise.inputs[0])
        differences = None if subtraction is None else combined_with_rows(subtraction, ["arith.subf"])
    if differences is None:
        return None
    source, largest = differences
    return source if is_reduced(largest, source, "arith.maximumf", -inf) else None
