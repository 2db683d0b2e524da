"""Attention as one operation, `iree_linalg_ext.attention`, and what a kernel reads of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.convolutions.exact_type import held_type
from iree.winograd.passes.match.elementwise import Elementwise, match_elementwise
from iree.winograd.passes.match.layouts.strided_view import views
from iree.winograd.passes.match.navigation import defining_operation
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.normalizations.rows import with_body
from iree.winograd.passes.match.products.batch_matmul import BatchProduct, Matrices, operand_of, output_of
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.passes.match.values.constants import scalar_constant
from iree.winograd.passes.match.values.conversions import rounded_type
from iree.winograd.passes.match.values.half_precision import half_type

ATTENTION = "iree_linalg_ext.attention"
_LOOPS = "bmvkn"
SAFE_ATTRIBUTE_NAME = "winograd.safe"
"""False where rows of nothing but minus infinity become NaN; of attention as iree-turbine has it zeros."""
_QUERIES, _KEYS, _VALUES, _SCALE, _SCORES, _RESULT = "bmk", "bnk", "bnv", "", "bmn", "bmv"


def indexing_maps(*, is_masked: bool = False) -> list[ir.AffineMap]:
    """Those of the operands of attention, of which a mask is the last but for the result."""
    loops = [ir.AffineExpr.get_dim(number) for number in range(len(_LOOPS))]
    operands = (_QUERIES, _KEYS, _VALUES, _SCALE, *((_SCORES,) if is_masked else ()), _RESULT)
    return [
        ir.AffineMap.get(len(_LOOPS), 0, [loops[_LOOPS.index(each)] for each in all_]) for all_ in operands
    ]


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

    safe: bool
    """Whether rows of nothing but minus infinity become zeros, not NaN."""


@dataclass(frozen=True)
class MaskRows:
    """Where the mask of a score lies, as matrices of queries by keys: these are neighbours.

    Where batches or queries share a mask, the distance between theirs is zero.
    """

    matrices: Matrices
    is_truth: bool = False
    """Whether it is a truth value, False where the score is minus infinity; else it is added to the score."""


@dataclass(frozen=True)
class AttentionProblem:
    """The products of attention, between which is a softmax; scores lie where a kernel has them."""

    scores: BatchProduct
    mixtures: BatchProduct
    safe: bool
    half: str | None = None
    """The type of half precision whose numbers queries, keys and values surely are, if they are."""
    masks: tuple[MaskRows, ...] = ()
    """By which scores are masked after they were multiplied by their factor."""


@dataclass(frozen=True)
class FusedAttention:
    """Attention of a constant scale that is read, and written, where it is."""

    problem: AttentionProblem
    queries: ir.Value
    keys: ir.Value
    values: ir.Value
    masks: tuple[ir.Value, ...]
    """f32 or i1, as the problem has them."""
    result: ir.Value
    """That of the operation, or of the transposition or rounding that is all that reads it."""
    rounded: ir.Type | None = None
    """The type of half precision to which the program rounds a result that it has in f32, if it does."""

    @property
    def in_half(self) -> bool:
        """Whether it reads or writes numbers of half precision."""
        tensors = self.queries, self.keys, self.values, self.result
        return self.rounded is not None or any(half_type(each) is not None for each in tensors)


def is_attention(operation: ir.Operation) -> bool:
    return bool(operation.name == ATTENTION)


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
    safe = SAFE_ATTRIBUTE_NAME not in operation.attributes or operation.attributes[SAFE_ATTRIBUTE_NAME].value
    return Attention(operation, queries, keys, values, scale, mask, safe)


def match_fused(attention: Attention, *, in_half: bool = False) -> FusedAttention | NoMatch:
    """The same as products that a kernel computes together, or why not.

    With `in_half` it reads what is widened for it, and writes what is rounded, in half precision.
    """
    operation = attention.operation
    factor = scalar_constant(attention.scale)
    if factor is None:
        return NoMatch(operation, "its scale isn't constant")
    if any(is_dynamic(each.type.shape[0]) for each in (attention.queries, attention.keys, attention.values)):
        return NoMatch(operation, "its batch is known only at run time")
    batch, rows, channels = attention.queries.type.shape
    _, keys, width = attention.values.type.shape
    if 0 in (batch, rows, channels, keys, width):
        return NoMatch(operation, "it has no elements")
    query_view, queries = operand_of(attention.queries, "bmk", "bmk", widens=in_half, rounds=False)
    key_view, transposed_keys = operand_of(attention.keys, "bnk", "bkn", widens=in_half)
    value_view, values = operand_of(attention.values, "bkn", "bkn", widens=in_half)
    result, output = output_of(operation, "bmn", narrows=in_half)
    block = Matrices(0, (), keys, 1)
    factor *= query_view.factor * key_view.factor
    views = query_view, key_view, value_view
    masks = [] if attention.mask is None else list(_mask_rows(attention.mask))
    return FusedAttention(
        AttentionProblem(
            BatchProduct(batch, rows, keys, channels, queries, transposed_keys, block, factor),
            BatchProduct(batch, rows, width, keys, block, values, output, value_view.factor),
            attention.safe,
            _common_half([view.source for view in views]),
            tuple(rows for _, rows in masks),
        ),
        query_view.source,
        key_view.source,
        value_view.source,
        tuple(source for source, _ in masks),
        result,
        None if half_type(result) is not None else held_type(result),
    )


def _mask_rows(mask: ir.Value) -> Iterator[tuple[ir.Value, MaskRows]]:
    """The tensors whose sum a mask is, each with where its elements lie."""
    definition = defining_operation(mask)
    sum_ = None if definition is None else with_body(definition, ["arith.addf"])
    if sum_ is not None and not sum_.reads_init and len(set(sum_.indexing_maps)) == 1:
        for term in sum_.inputs[:-1]:
            yield from _mask_rows(term)
        return
    for view in views(mask, broadcasts=True):
        batch, rows, columns = view.dimensions
        are_rows = len(rows) <= 1 and len(columns) <= 1 and all(stride == 1 for _, stride in columns)
        if are_rows and view.factor == 1:
            matrices = Matrices(view.first, batch, rows[0][1] if rows else 0, 1)
            yield view.source, MaskRows(matrices, isinstance(mask.type.element_type, ir.IntegerType))
            return
    raise AssertionError("a tensor is a view of itself")


def _common_half(values: Sequence[ir.Value]) -> str | None:
    """The type of half precision that all of some tensors hold numbers of."""
    types = {_half_of(value) for value in values}
    half = types.pop() if len(types) == 1 else None
    return None if half is None else str(half)


def _half_of(value: ir.Value) -> ir.Type | None:
    """The type of half precision that a tensor has, or that its elements are rounded to last."""
    if (half := half_type(value)) is not None:
        return half
    definition = defining_operation(value)
    elementwise = None if definition is None else match_elementwise(definition)
    if not isinstance(elementwise, Elementwise):
        return None
    *_, terminator = elementwise.body.operations
    return rounded_type(terminator.operation.operands[0])


def _letters(indexing_map: ir.AffineMap) -> str | None:
    """The loops that index the dimensions of an operand; None where something else does."""
    if any(not isinstance(result, ir.AffineDimExpr) for result in indexing_map.results):
        return None
    return "".join(_LOOPS[ir.AffineDimExpr(result).position] for result in indexing_map.results)
