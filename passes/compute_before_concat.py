"""Compute what follows a concatenation of channels on its parts."""

from __future__ import annotations

from iree.winograd.dialect import ops
from iree.winograd.dialect.bindings import ir, tensor
from iree.winograd.passes.build.bodies import inline_block
from iree.winograd.passes.build.generic import Read, build_elementwise
from iree.winograd.passes.build.slices import extracted
from iree.winograd.passes.build.tensors import shape_of
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.infrastructure.remarks import remark_left
from iree.winograd.passes.match.elementwise import Elementwise, broadcast_source, captures, match_elementwise
from iree.winograd.passes.match.navigation import defining_operation, only_user, walk
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.passes.match.values.constants import is_known_at_load
from iree.winograd.passes.rewrite.erasure import erase_if_unused

PASS_NAME = "winograd-compute-before-concat"


@register_pass(PASS_NAME)
class ComputeBeforeConcat:
    """Compute what follows a concatenation of channels on its parts.

    Elementwise operations on a concatenation, such as a batch norm and an activation, read and write all of
    it again. Computed on each part, those on what a convolution computes move into its epilogue. Chains of
    operations that only they use are moved where there is such a part, used by nothing else. Of operands that
    vary along the channels each part has a slice, of constants only: others would be copied for it.

        %c = tensor.concat dim(3) %x, %y : (tensor<1x7x7x8xf32>, tensor<1x7x7x4xf32>) -> tensor<1x7x7x12xf32>
        %r = linalg.generic ins(%c, %bias : tensor<1x7x7x12xf32>, tensor<12xf32>) { arith.addf }
      becomes
        %b = tensor.extract_slice %bias[0] [8] [1]
        %s = linalg.generic ins(%x, %b : tensor<1x7x7x8xf32>, tensor<8xf32>) { arith.addf }
        %d = tensor.extract_slice %bias[8] [4] [1]
        %t = linalg.generic ins(%y, %d : tensor<1x7x7x4xf32>, tensor<4xf32>) { arith.addf }
        %r = tensor.concat dim(3) %s, %t : (tensor<1x7x7x8xf32>, tensor<1x7x7x4xf32>) -> tensor<1x7x7x12xf32>
    """

    def run(self, module: ir.Operation) -> None:
        concatenations = [each for each in walk(module) if each.name == "tensor.concat"]
        # The last ones first: what follows those moves before them, and so behind those that they extend.
        rewrite_each("concatenation", reversed(concatenations), _move_consumers)


def _move_consumers(concatenation: ir.Operation) -> None:
    if not _joins_channels(concatenation) or not any(map(_is_from_convolution, concatenation.operands)):
        return
    while isinstance(consumer := _match_consumer(concatenation), Elementwise):
        with consumer.operation.location, ir.InsertionPoint(consumer.operation):
            moved = _build_on_parts(concatenation, consumer)
        consumer.result.replace_all_uses_with(moved)
        erase_if_unused([consumer.operation])
        concatenation = moved.owner.operation
    if isinstance(consumer, NoMatch):
        remark_left(PASS_NAME, consumer)


def _joins_channels(concatenation: ir.Operation) -> bool:
    """Whether what is concatenated are channels, the last dimension, of static numbers."""
    types = [ir.RankedTensorType(value.type) for value in concatenation.operands]
    is_last = concatenation.attributes["dim"].value == types[0].rank - 1
    return is_last and not any(is_dynamic(type_.shape[-1]) for type_ in types)


def _is_from_convolution(part: ir.Value) -> bool:
    """Whether elementwise operations on a convolution's output compute it, and nothing else uses them."""
    while only_user(part) is not None and (definition := defining_operation(part)) is not None:
        if definition.name == ops.OutputTransformOp.OPERATION_NAME:
            return True
        elementwise = match_elementwise(definition)
        if isinstance(elementwise, NoMatch):
            return False
        source = next((value for value, _ in elementwise.reads if value.type == part.type), None)
        if source is None:
            return False
        part = source
    return False


def _match_consumer(concatenation: ir.Operation) -> Elementwise | NoMatch | None:
    """What is moved before the concatenation next; None where nothing elementwise follows."""
    result = concatenation.results[0]
    user = only_user(result)
    if user is None or user.block != concatenation.block:
        return None
    consumer = match_elementwise(user)
    if isinstance(consumer, NoMatch) or not consumer.is_pure or consumer.reads_init:
        return None
    if consumer.result.type != result.type or captures(consumer.body):
        return None
    for value, indexing_map in consumer.reads:
        if value == result:
            if indexing_map != ir.AffineMap.get_identity(result.type.rank):
                return None
            continue
        source, read = broadcast_source(value, indexing_map)
        if not all(isinstance(index, ir.AffineConstantExpr | ir.AffineDimExpr) for index in read.results):
            return None
        if _along_channels(read) and not is_known_at_load(source):
            return NoMatch(user, "an operand varies along the channels, and isn't a constant")
    return consumer


def _build_on_parts(concatenation: ir.Operation, consumer: Elementwise) -> ir.Value:
    """What `consumer` computes of each part, concatenated."""
    computed, first = [], 0
    for part in concatenation.operands:
        channels = ir.RankedTensorType(part.type).shape[-1]
        reads = [
            (part, indexing_map)
            if value == concatenation.results[0]
            else _of_channels(broadcast_source(value, indexing_map), first, channels)
            for value, indexing_map in consumer.reads
        ]
        init = tensor.empty(shape_of(part), part.type.element_type)
        computed.append(
            build_elementwise(reads, init, lambda elements: inline_block(consumer.body, elements)[0])
        )
        first += channels
    return tensor.concat(consumer.result.type, concatenation.attributes["dim"], computed)


def _of_channels(operand: Read, first: int, channels: int) -> Read:
    """`operand`, or a slice of it where it varies along the channels."""
    source, read = operand
    along = _along_channels(read)
    if not along:
        return operand
    offsets, sizes = [0] * source.type.rank, list(source.type.shape)
    for dimension in along:
        offsets[dimension], sizes[dimension] = first, channels
    return extracted(source, offsets, sizes), read


def _along_channels(read: ir.AffineMap) -> list[int]:
    """The dimensions of an operand whose index is that of the channel, the last loop."""
    channel = ir.AffineExpr.get_dim(read.n_dims - 1)
    return [dimension for dimension, index in enumerate(read.results) if index == channel]
