"""Attention as products of matrices with a softmax between, as torch's functions come."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf, prod

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.elementwise import Elementwise, match_elementwise
from iree.winograd.passes.match.layouts.strided_view import constant_factor
from iree.winograd.passes.match.navigation import RESHAPES, defining_operation, only_user, walk
from iree.winograd.passes.match.normalizations.softmax import Softmax, divides, match_softmax
from iree.winograd.passes.match.products.batch_matmul import (
    BatchMatmul,
    is_batch_matmul,
    letters_of,
    match_batch_matmul,
)
from iree.winograd.passes.match.values.constants import scalar_constant, uniform_constant
from iree.winograd.passes.match.values.conversions import only_computation, rounding_type

_READERS = 2
"""Operations of a softmax that read its scores; a safe one has one more."""


@dataclass(frozen=True)
class ScoreMask:
    """What scores are masked by, f32 that is added to them or truth values."""

    value: ir.Value
    indexing_map: ir.AffineMap
    """From the index of a score to that of its element."""
    shape: tuple[int, ...]
    """Of the scores there: dimensions that together are b, then m x n."""
    hides: bool | None = None
    """The truth value in whose place the score is minus infinity."""


@dataclass(frozen=True)
class AttentionChain:
    """softmax(factor * queries * keys^T + masks) * values, b x m x v, in f32 and of static sizes.

    Scores and weights may be rounded to half precision between, as torch does: here they aren't.
    """

    product: ir.Operation
    """The last."""
    queries: ir.Value
    """b x m x k."""
    keys: ir.Value
    """b x n x k if `keys_are_rows`, else b x k x n."""
    keys_are_rows: bool
    values: ir.Value
    """b x n x v."""
    factor: float
    masks: tuple[ScoreMask, ...]
    safe: bool


@dataclass(frozen=True)
class _Scores:
    """factor * products + masks."""

    products: ir.Operation
    factor: float = 1.0
    masks: tuple[ScoreMask, ...] = ()


def attention_chains(module: ir.Operation) -> list[AttentionChain]:
    """Those of `module` in program order, but for such whose scores or weights something else reads."""
    softmaxes = {each.result: each for each in _softmaxes(module)}
    if not softmaxes:
        return []
    products = [each for each in walk(module) if is_batch_matmul(each)]
    chains = (_chain(each, softmaxes) for each in products)
    return [each for each in chains if each is not None]


def _softmaxes(module: ir.Operation) -> Iterator[Softmax]:
    """Those of rows."""
    for operation in walk(module):
        softmax = match_softmax(operation) if divides(operation) else None
        if softmax is not None and softmax.dimension == len(softmax.shape) - 1:
            yield softmax


def _chain(product: ir.Operation, softmaxes: dict[ir.Value, Softmax]) -> AttentionChain | None:
    weights, values, _ = product.operands
    softmax = softmaxes.get(_before_roundings(weights))
    if softmax is None or letters_of(product) != ["bmk", "bkn", "bmn"]:
        return None
    readers = {use.owner.operation for use in softmax.source.uses}
    if only_user(softmax.result) is None or len(readers) > _READERS + softmax.safe:
        return None
    scores = _scores(softmax.source)
    if scores is None or _shape(scores.products.results[0]) != _shape(weights):
        return None
    first = scores.products
    if only_user(first.results[0]) is None or not _fit(scores.masks, weights):
        return None
    letters = letters_of(first)
    if letters not in (["bmk", "bkn", "bmn"], ["bmk", "bnk", "bmn"]):
        return None
    if not all(isinstance(match_batch_matmul(each), BatchMatmul) for each in (first, product)):
        return None
    queries, keys, _ = first.operands
    keys_are_rows = letters[1] == "bnk"
    return AttentionChain(
        product, queries, keys, keys_are_rows, values, scores.factor, scores.masks, softmax.safe
    )


def _before_roundings(value: ir.Value) -> ir.Value:
    """What a value is reshaped or rounded from, which nothing else reads."""
    definition = defining_operation(value)
    while definition is not None and _keeps_scores(definition):
        (value, *_) = definition.operands
        if only_user(value) is None:
            break
        definition = defining_operation(value)
    return value


def _keeps_scores(operation: ir.Operation) -> bool:
    return operation.name in RESHAPES or rounding_type(operation) is not None


def _scores(value: ir.Value) -> _Scores | None:
    """The products of matrices that were multiplied by constants, then masked, before the softmax."""
    definition = defining_operation(_before_roundings(value))
    if definition is None:
        return None
    if is_batch_matmul(definition):
        return _Scores(definition)
    if (factor := constant_factor(definition, rounds=True)) is not None:
        scores = _scores(definition.operands[0])
        return None if scores is None or scores.masks else replace(scores, factor=factor * scores.factor)
    for masked, mask in _maskings(definition):
        scores = _scores(masked)
        if scores is not None and only_user(masked) is not None:
            return replace(scores, masks=(*scores.masks, mask))
    return None


def _maskings(operation: ir.Operation) -> Iterator[tuple[ir.Value, ScoreMask]]:
    """The tensors that an operation may mask, each with the mask."""
    elementwise = match_elementwise(operation)
    if not isinstance(elementwise, Elementwise) or elementwise.reads_init:
        return
    shape = _shape(elementwise.result)
    first = only_computation(elementwise, rounds=True)
    if first is None:
        return
    read = dict(zip(elementwise.body.arguments, elementwise.reads, strict=False))
    if first.name == "arith.addf" and all(each in read for each in first.operands):
        one, other = (read[each] for each in first.operands)
        for (scores, whole), (added, shared) in ((one, other), (other, one)):
            if _is_whole(scores, whole, shape):
                yield scores, ScoreMask(added, shared, shape)
    if first.name == "arith.select" and first.operands[0] in read:
        condition, *cases = first.operands
        truth, shared = read[condition]
        for hides, (hidden, kept) in ((True, cases), (False, cases[::-1])):
            if kept not in read or not _is_minus_infinity(read[hidden][0] if hidden in read else hidden):
                continue
            scores, whole = read[kept]
            if _is_whole(scores, whole, shape):
                yield scores, ScoreMask(truth, shared, shape, hides)


def _is_minus_infinity(value: ir.Value) -> bool:
    is_tensor = isinstance(value.type, ir.RankedTensorType)
    return (uniform_constant(value) if is_tensor else scalar_constant(value)) == -inf


def _is_whole(value: ir.Value, read: ir.AffineMap, shape: tuple[int, ...]) -> bool:
    """Whether an elementwise operation of this shape reads all elements of a tensor in their order."""
    if _shape(value) != shape:
        return False
    first = ir.AffineExpr.get_constant(0)
    return all(
        expression == ir.AffineExpr.get_dim(number) or (shape[number] == 1 and expression == first)
        for number, expression in enumerate(read.results)
    )


def _fit(masks: tuple[ScoreMask, ...], weights: ir.Value) -> bool:
    """Whether one operation has all masks: one of truth values, or numbers."""
    batch, *matrix = _shape(weights)
    if any(list(each.shape[-2:]) != matrix or prod(each.shape[:-2]) != batch for each in masks):
        return False
    if not all(ir.RankedTensorType(each.value.type).has_static_shape for each in masks):
        return False
    if any(str(each.value.type.element_type) != ("f32" if each.hides is None else "i1") for each in masks):
        return False
    return len(masks) <= 1 or all(each.hides is None for each in masks)


def _shape(value: ir.Value) -> tuple[int, ...]:
    return tuple(ir.RankedTensorType(value.type).shape)
