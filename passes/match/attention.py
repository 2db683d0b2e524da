"""Attention as one operation, `iree_linalg_ext.attention`, which iree-turbine exports."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.sizes import is_dynamic

_OPERATION_NAME = "iree_linalg_ext.attention"
_LOOPS = "bmvkn"
_QUERIES, _KEYS, _VALUES, _SCALE, _SCORES, _RESULT = "bmk", "bnk", "bnv", "", "bmn", "bmv"


@dataclass(frozen=True)
class Attention:
    """softmax(scale * queries * keys^T + mask) * values, in f32; only the batch may be dynamic."""

    operation: ir.Operation
    queries: ir.Value
    """b x m x k."""
    keys: ir.Value
    """b x n x k."""
    values: ir.Value
    """b x n x v."""
    scale: ir.Value
    mask: ir.Value | None
    """b x m x n of what is added, or of truth values: those are False where minus infinity is added."""


def is_attention(operation: ir.Operation) -> bool:
    return bool(operation.name == _OPERATION_NAME)


def match_attention(operation: ir.Operation) -> Attention | NoMatch:
    """The attention that an operation is for which `is_attention` holds."""
    maps = [ir.AffineMapAttr(each).value for each in operation.attributes["indexing_maps"]]
    is_masked = len(maps) == len((_QUERIES, _KEYS, _VALUES, _SCALE, _SCORES, _RESULT))
    wanted = [_QUERIES, _KEYS, _VALUES, _SCALE, *([_SCORES] if is_masked else []), _RESULT]
    if [_letters(each) for each in maps] != wanted:
        return NoMatch(operation, "its operands have other dimensions, or in another order")
    queries, keys, values, scale, *masks, _ = operation.operands
    mask = masks[0] if masks else None
    tensors = [queries, keys, values, operation.results[0]]
    if any(not isinstance(each.type.element_type, ir.F32Type) for each in tensors):
        return NoMatch(operation, "it has elements of other types than f32")
    if not isinstance(scale.type, ir.F32Type):
        return NoMatch(operation, f"its scale is of type {scale.type}, not f32")
    if mask is not None and str(mask.type.element_type) not in ("f32", "i1"):
        return NoMatch(operation, f"its mask has elements of type {mask.type.element_type}, not f32 or i1")
    if any(is_dynamic(size) for each in tensors for size in each.type.shape[1:]):
        return NoMatch(operation, "its sizes are known only at run time")
    body = operation.regions[0].blocks[0]
    *computed, terminator = body.operations
    if computed or terminator.operation.operands[0] != body.arguments[0]:
        return NoMatch(operation, "it computes something of its scores")
    return Attention(operation, queries, keys, values, scale, mask)


def _letters(indexing_map: ir.AffineMap) -> str | None:
    """The loops that index the dimensions of an operand; None where something else does."""
    if any(not isinstance(result, ir.AffineDimExpr) for result in indexing_map.results):
        return None
    return "".join(_LOOPS[ir.AffineDimExpr(result).position] for result in indexing_map.results)
