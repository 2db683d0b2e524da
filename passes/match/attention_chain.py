"""Attention as products of matrices with a softmax between, as torch's functions come."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.batch_matmul import (
    BatchMatmul,
    is_batch_matmul,
    letters_of,
    match_batch_matmul,
)
from iree.winograd.passes.match.navigation import defining_operation, only_user, walk
from iree.winograd.passes.match.reductions import RESHAPES
from iree.winograd.passes.match.softmax import Softmax, divides, match_softmax
from iree.winograd.passes.match.strided_view import constant_factor

_READERS = 2
"""Operations of a softmax that read its scores; a safe one has one more."""


@dataclass(frozen=True)
class AttentionChain:
    """softmax(factor * queries * keys^T) * values, b x m x v, in f32 and of static sizes."""

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
    safe: bool


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
    softmax = softmaxes.get(_before_reshapes(weights))
    if softmax is None or letters_of(product) != ["bmk", "bkn", "bmn"]:
        return None
    readers = {use.owner.operation for use in softmax.source.uses}
    if only_user(softmax.result) is None or len(readers) > _READERS + softmax.safe:
        return None
    factor, scores = _scaled(softmax.source)
    first = defining_operation(scores)
    if first is None or not is_batch_matmul(first) or scores.type != weights.type:
        return None
    if only_user(scores) is None:
        return None
    letters = letters_of(first)
    if letters not in (["bmk", "bkn", "bmn"], ["bmk", "bnk", "bmn"]):
        return None
    if not all(isinstance(match_batch_matmul(each), BatchMatmul) for each in (first, product)):
        return None
    queries, keys, _ = first.operands
    return AttentionChain(product, queries, keys, letters[1] == "bnk", values, factor, softmax.safe)


def _before_reshapes(value: ir.Value) -> ir.Value:
    """What a value is reshaped from, which nothing else reads."""
    definition = defining_operation(value)
    while definition is not None and definition.name in RESHAPES:
        (value, *_) = definition.operands
        if only_user(value) is None:
            break
        definition = defining_operation(value)
    return value


def _scaled(scores: ir.Value) -> tuple[float, ir.Value]:
    """The constant by which products were multiplied before the softmax, and these products."""
    factor = 1.0
    while True:
        value = _before_reshapes(scores)
        definition = defining_operation(value)
        scale = None if definition is None else constant_factor(definition)
        if definition is None or scale is None:
            return factor, value
        scores, factor = definition.operands[0], factor * scale
