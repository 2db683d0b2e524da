"""Elementwise operations on a tensor whose dimensions were merged, computed on the unmerged one."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir, tensor
from iree.winograd.passes.build.bodies import inline_block
from iree.winograd.passes.build.generic import build_elementwise
from iree.winograd.passes.match.elementwise import Elementwise, captures, match_elementwise
from iree.winograd.passes.match.groups import merging_pixels, reassociation_of
from iree.winograd.passes.match.navigation import defining_operation, only_user
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.rewrite.erasure import erase_if_unused


def compute_before_collapse(collapsed: ir.Value) -> None:
    """Compute the elementwise operations that follow `collapsed` before its dimensions are merged.

    `collapsed` is a `tensor.collapse_shape` of static shape of all dimensions but the last. Chains of
    operations that only they use are moved, those whose other operands have its shape or are read along the
    last dimension. Where the dimensions are split again as they were, both reshapes go; where they are split
    otherwise, as to windows of tokens, what follows is computed before that as well.

        %c = tensor.collapse_shape %x [[0, 1], [2]] : tensor<1x37x64xf32> into tensor<37x64xf32>
        %b = linalg.generic ins(%c, %bias : tensor<37x64xf32>, tensor<64xf32>) { arith.addf }
        %r = tensor.expand_shape %b [[0, 1], [2]] : tensor<37x64xf32> into tensor<1x37x64xf32>
      becomes
        %r = linalg.generic ins(%x, %bias : tensor<1x37x64xf32>, tensor<64xf32>) { arith.addf }
    """
    while (consumer := _consumer_before_split(collapsed)) is not None:
        with consumer.operation.location, ir.InsertionPoint(consumer.operation):
            computed = _build_uncollapsed(collapsed, consumer)
        consumer.result.replace_all_uses_with(computed)
        erase_if_unused([consumer.operation])
        collapsed = computed
    collapse = defining_operation(collapsed)
    assert collapse is not None
    source = collapse.operands[0]
    for user in {use.owner.operation for use in collapsed.uses}:
        if user.name == "tensor.expand_shape" and user.results[0].type == source.type:
            user.results[0].replace_all_uses_with(source)
            user.erase()
    erase_if_unused([collapse])


def _consumer_before_split(collapsed: ir.Value) -> Elementwise | None:
    """The movable consumer of `collapsed`: one of its split rows is built anew, of the rows, before these."""
    split = only_user(collapsed)
    if split is None or split.name != "tensor.expand_shape":
        return _movable_consumer(collapsed)
    type_ = ir.RankedTensorType(split.results[0].type)
    is_of_rows = reassociation_of(split) == merging_pixels(type_.rank) and type_.has_static_shape
    if not is_of_rows or type_ == collapsed.owner.operation.operands[0].type:
        return None
    consumer = _movable_consumer(split.results[0])
    if consumer is None:
        return None
    with consumer.operation.location, ir.InsertionPoint(consumer.operation):
        consumer.result.replace_all_uses_with(_build_before_split(split, consumer))
    erase_if_unused([consumer.operation, split])
    return _movable_consumer(collapsed)


def _build_before_split(split: ir.Operation, consumer: Elementwise) -> ir.Value:
    """Build what `consumer` computes of split rows on the rows, and split those of that."""
    (rows,), groups = split.operands, reassociation_of(split)
    reads = []
    for value, indexing_map in consumer.reads:
        if indexing_map != ir.AffineMap.get_identity(indexing_map.n_dims):
            reads.append((value, _along_last(indexing_map, len(groups))))
            continue
        type_ = ir.RankedTensorType.get(rows.type.shape, value.type.element_type)
        merged = rows if value == split.results[0] else tensor.collapse_shape(type_, value, groups)
        reads.append((merged, ir.AffineMap.get_identity(len(groups))))
    init = tensor.empty(rows.type.shape, consumer.result.type.element_type)
    computed = build_elementwise(reads, init, lambda elements: inline_block(consumer.body, elements)[0])
    type_ = ir.RankedTensorType(split.results[0].type)
    return tensor.expand_shape(type_, computed, groups, [], list(type_.shape))


def _movable_consumer(collapsed: ir.Value) -> Elementwise | None:
    user = only_user(collapsed)
    if user is None or user.block != collapsed.owner.operation.block:
        return None
    consumer = match_elementwise(user)
    if (
        isinstance(consumer, NoMatch)
        or not consumer.is_pure
        or consumer.reads_init
        or captures(consumer.body)
    ):
        return None
    rank = ir.RankedTensorType(collapsed.type).rank
    identity, last = ir.AffineMap.get_identity(rank), ir.AffineExpr.get_dim(rank - 1)
    if consumer.result.type != collapsed.type:
        return None
    for value, indexing_map in consumer.reads:
        along_last = all(
            index == last or isinstance(index, ir.AffineConstantExpr) for index in indexing_map.results
        )
        if indexing_map != identity and (value == collapsed or not along_last):
            return None
    return consumer


def _build_uncollapsed(collapsed: ir.Value, consumer: Elementwise) -> ir.Value:
    """Build what `consumer` computes on the operand of `collapsed`, and merge the dimensions of that."""
    collapse = collapsed.owner.operation
    source, reassociation = collapse.operands[0], collapse.attributes["reassociation"]
    groups = [[dimension.value for dimension in group] for group in reassociation]
    shape = list(ir.RankedTensorType(source.type).shape)
    rank, collapsed_rank = len(shape), len(groups)
    reads = []
    for value, indexing_map in consumer.reads:
        if indexing_map != ir.AffineMap.get_identity(collapsed_rank):
            reads.append((value, _along_last(indexing_map, rank)))
            continue
        type_ = ir.RankedTensorType.get(shape, value.type.element_type)
        expanded = source if value == collapsed else tensor.expand_shape(type_, value, groups, [], shape)
        reads.append((expanded, ir.AffineMap.get_identity(rank)))
    init = tensor.empty(shape, source.type.element_type)
    computed = build_elementwise(reads, init, lambda elements: inline_block(consumer.body, elements)[0])
    return tensor.collapse_shape(collapsed.type, computed, groups)


def _along_last(indexing_map: ir.AffineMap, rank: int) -> ir.AffineMap:
    """`indexing_map`, which reads along the last dimension only, for loops of `rank` dimensions."""
    last = ir.AffineExpr.get_dim(rank - 1)
    results = [index if isinstance(index, ir.AffineConstantExpr) else last for index in indexing_map.results]
    return ir.AffineMap.get(rank, 0, results)
