"""Images whose channels are multiplied by a number each, as excitation does."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.elementwise import Elementwise, match_elementwise

_OPERATIONS = ("arith.extf", "arith.mulf", "arith.truncf", "linalg.yield")


def is_channel_scale(operation: ir.Operation) -> bool:
    """Whether each element of an image, channels last, is multiplied by its channel's number, and rounded."""
    elementwise = match_elementwise(operation)
    if not isinstance(elementwise, Elementwise) or len(elementwise.reads) != 2:
        return False
    names = [view.operation.name for view in elementwise.body.operations]
    if names.count("arith.mulf") != 1 or not set(names) <= set(_OPERATIONS):
        return False
    rank = ir.RankedTensorType(elementwise.result.type).rank
    (_, whole), (_, of_channel) = elementwise.reads
    read = {each.position for each in of_channel.results if isinstance(each, ir.AffineDimExpr)}
    return whole == ir.AffineMap.get_identity(rank) and read in ({rank - 1}, {0, rank - 1})
