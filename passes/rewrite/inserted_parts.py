"""Elementwise operations on a tensor that is assembled from parts, moved to the parts."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir, tensor
from iree.winograd.passes.build.bodies import inline_block
from iree.winograd.passes.build.generic import build_elementwise
from iree.winograd.passes.build.tensors import shape_of
from iree.winograd.passes.match.elementwise import Elementwise, broadcast_source, match_elementwise
from iree.winograd.passes.match.navigation import defining_operation, only_user
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.rewrite.erasure import erase_if_unused


def apply_to_parts(assembled: ir.Value) -> None:
    """Apply the elementwise operations that follow `assembled` to each part before it is inserted.

    `assembled` is the last of the insertions that fill an empty tensor; anything else is left alone. Chains
    of operations that only they use are moved, those whose other operands are the same for all parts: they
    don't depend on the dimensions along which the parts lie. The init of an operation must not be read.

        %s = tensor.insert_slice %even into %empty[0, 0, 0] [1, 4, 9] [1, 1, 2]
        %t = tensor.insert_slice %odd into %s[0, 0, 1] [1, 4, 9] [1, 1, 2]
        %r = linalg.generic ins(%t) { arith.maximumf }
      becomes
        %e = linalg.generic ins(%even) { arith.maximumf }
        %s = tensor.insert_slice %e into %empty[0, 0, 0] [1, 4, 9] [1, 1, 2]
        %o = linalg.generic ins(%odd) { arith.maximumf }
        %r = tensor.insert_slice %o into %s[0, 0, 1] [1, 4, 9] [1, 1, 2]
    """
    while insertions := _insertions(assembled):
        consumer = _movable_consumer(assembled, insertions)
        if consumer is None:
            return
        with consumer.operation.location, ir.InsertionPoint(consumer.operation):
            applied = _build_applied(assembled, insertions, consumer)
        consumer.result.replace_all_uses_with(applied)
        erase_if_unused([consumer.operation])
        assembled = applied


def _insertions(assembled: ir.Value) -> list[ir.Operation]:
    """Those that fill an empty tensor to give `assembled`, in order; none if it is made in another way."""
    insertions: list[ir.Operation] = []
    value = assembled
    while (definition := defining_operation(value)) is not None:
        if definition.name == "tensor.empty":
            return insertions
        is_insertion = definition.name == "tensor.insert_slice"
        if not is_insertion or definition.operands[0].type.rank != assembled.type.rank:
            break
        insertions.insert(0, definition)
        value = definition.operands[1]
    return []


def _movable_consumer(assembled: ir.Value, insertions: list[ir.Operation]) -> Elementwise | None:
    user = only_user(assembled)
    if user is None or user.block != insertions[-1].block:
        return None
    consumer = match_elementwise(user)
    if isinstance(consumer, NoMatch) or not consumer.is_pure or consumer.reads_init:
        return None
    if consumer.result.type != assembled.type:
        return None
    rank = assembled.type.rank
    divided = {d for insertion in insertions for d in range(rank) if _divides(insertion, d)}
    for value, indexing_map in consumer.reads:
        if value == assembled:
            if indexing_map != ir.AffineMap.get_identity(rank):
                return None
            continue
        _, read = broadcast_source(value, indexing_map)
        for index in read.results:
            if isinstance(index, ir.AffineConstantExpr):
                continue
            if not isinstance(index, ir.AffineDimExpr) or index.position in divided:
                return None
    return consumer


def _divides(insertion: ir.Operation, dimension: int) -> bool:
    """Whether what is inserted isn't all of the tensor along a dimension."""
    part, whole = (operand.type.shape[dimension] for operand in list(insertion.operands)[:2])
    return bool(part != whole or insertion.attributes["static_strides"][dimension] != 1)


def _build_applied(assembled: ir.Value, insertions: list[ir.Operation], consumer: Elementwise) -> ir.Value:
    result = tensor.empty(shape_of(assembled), assembled.type.element_type)
    for insertion in insertions:
        part = _build_on_part(assembled, insertion.operands[0], consumer)
        applied = insertion.clone().operation
        applied.operands[0], applied.operands[1] = part, result
        result = applied.results[0]
    return result


def _build_on_part(assembled: ir.Value, part: ir.Value, consumer: Elementwise) -> ir.Value:
    """The operation of `consumer` on `part` in place of `assembled`."""
    reads = [
        (part, indexing_map) if value == assembled else broadcast_source(value, indexing_map)
        for value, indexing_map in consumer.reads
    ]
    init = tensor.empty(shape_of(part), part.type.element_type)
    return build_elementwise(reads, init, lambda elements: inline_block(consumer.body, elements)[0])
