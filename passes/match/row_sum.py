"""Sums over the rows of images: what means over pixels are made of, a dimension after the other."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.constants import is_zero
from iree.winograd.passes.match.reductions import generic_maps, is_reduction, reduced_loops


@dataclass(frozen=True)
class RowSum:
    """The sums of `image`, channels last, over the dimension before the channels."""

    image: ir.Value
    result: ir.Value
    order: ir.AffineMap
    """From an element of the result to the sum that it is, of those in the order of the image."""


def match_row_sum(operation: ir.Operation) -> RowSum | None:
    """What an operation sums, if that is all that it does."""
    if not is_reduction(operation) or len(operation.operands) != 2 or not is_zero(operation.operands[1]):
        return None
    read, written = generic_maps(operation)
    if not read.is_permutation or not isinstance(operation.operands[0].type, ir.RankedTensorType):
        return None
    loops = [ir.AffineDimExpr(each).position for each in read.results]
    if len(loops) < 3 or reduced_loops(operation) != loops[-2:-1] or not _only_adds(operation):
        return None
    kept = [*loops[:-2], loops[-1]]
    places = {
        each.position: place
        for place, each in enumerate(written.results)
        if isinstance(each, ir.AffineDimExpr)
    }
    if set(places) != set(kept):
        return None
    order = [ir.AffineExpr.get_dim(places[loop]) for loop in kept]
    rank = len(written.results)
    return RowSum(operation.operands[0], operation.results[0], ir.AffineMap.get(rank, 0, order))


def _only_adds(operation: ir.Operation) -> bool:
    body = operation.regions[0].blocks[0]
    first, *others = (view.operation for view in body.operations)
    adds = first.name == "arith.addf" and set(first.operands) == set(body.arguments)
    return adds and len(others) == 1 and others[0].operands[0] == first.results[0]
