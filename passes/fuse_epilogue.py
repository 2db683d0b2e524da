"""Move elementwise consumers into the output transform."""

from __future__ import annotations

from iree.winograd.dialect import ops
from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.passes.build.bodies import inline_block
from iree.winograd.passes.build.epilogue_operand import build_epilogue_operand
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.infrastructure.remarks import remark_left
from iree.winograd.passes.match.elementwise import Elementwise, broadcast_source, captures, match_elementwise
from iree.winograd.passes.match.epilogues.epilogue_operand import EpilogueOperand, match_epilogue_operand
from iree.winograd.passes.match.groups import merged_pixels
from iree.winograd.passes.match.navigation import transforms
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.values.constants import uniform_constant
from iree.winograd.passes.rewrite.before_collapse import compute_before_collapse
from iree.winograd.passes.rewrite.erasure import erase_if_unused

PASS_NAME = "winograd-fuse-epilogue"


@register_pass(PASS_NAME)
class FuseEpilogue:
    """Move elementwise consumers into the output transform.

    Chains of elementwise operations that only they use (bias, batch norm, ReLU, a residual's addition, ...)
    become the transform's epilogue, applied to each output while it is in a register. Their other operands
    become operands of the transform with the maps to read them; broadcasts are read at their source, and what
    is computed from constants alone, such as `1 / sqrt(variance + epsilon)`, is evaluated in float64 here. An
    operation with several results, one that changes the element type, and one that reads the convolution's
    output transposed or another operand with its channels anywhere but innermost end the chain. What follows
    where pixels were merged to tokens is computed before they are.

        %y = "winograd.output_transform"(%m) ({ ^bb0(%a: f32): vector.yield %a : f32 })
        %r = linalg.generic ins(%y, %bias : tensor<1x14x14x4xf32>, tensor<4xf32>) { arith.addf }
      becomes
        %r = "winograd.output_transform"(%m, %bias) ({
          ^bb0(%a: f32, %b: f32):
            %s = arith.addf %a, %b : f32
            vector.yield %s : f32
        }) {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d3)>]}
    """

    def run(self, module: ir.Operation) -> None:
        rewrite_each("output transform", transforms(module, ops.OutputTransformOp), _fuse_consumers)


def _fuse_consumers(transform: ops.OutputTransformOp) -> None:
    tokens = None if transform.channels_first else merged_pixels(transform.result)
    if tokens is not None:
        compute_before_collapse(tokens)
    while isinstance(consumer := _match_consumer(transform), Elementwise):
        with consumer.operation.location, ir.InsertionPoint(consumer.operation):
            fused = _build_fused(transform, consumer)
        consumer.result.replace_all_uses_with(fused.result)
        erase_if_unused([consumer.operation, transform.operation])
        transform = fused
    if isinstance(consumer, NoMatch):
        remark_left(PASS_NAME, consumer)


def _match_consumer(transform: ops.OutputTransformOp) -> Elementwise | NoMatch | None:
    """What the epilogue takes in next; None where nothing elementwise follows."""
    users = {use.owner.operation for use in transform.result.uses}
    if transform.channels_first or not users or not all(map(_is_elementwise, users)):
        return None
    if len(users) > 1:
        return NoMatch(transform.operation, f"{len(users)} elementwise operations use its result")
    (user,) = users
    consumer = match_elementwise(user)
    if isinstance(consumer, NoMatch):
        return consumer
    if user.block != transform.operation.block:
        return NoMatch(user, "it is in another block than the convolution")
    if not consumer.is_pure:
        return NoMatch(user, "its body has more than arithmetic")
    if captures(consumer.body):
        return NoMatch(user, "its body uses a value from outside that is not a constant")
    if consumer.result.type != transform.result.type:
        return NoMatch(user, f"its result is not {transform.result.type}, as the convolution's is")
    if len(transform.epilogue_operands) + len(consumer.inputs) - 1 > ops.MAX_EPILOGUE_OPERANDS:
        return NoMatch(user, f"the epilogue would have more than {ops.MAX_EPILOGUE_OPERANDS} operands")
    reads = zip(consumer.inputs, consumer.indexing_maps, strict=True)
    return next(filter(None, (_unreadable(transform, user, *read) for read in reads)), consumer)


def _is_elementwise(user: ir.Operation) -> bool:
    """Whether `user` would be the epilogue's but for its details; a reduction isn't."""
    consumer = match_elementwise(user)
    return isinstance(consumer, Elementwise) or (user.name == "linalg.generic" and len(user.results) > 1)


def _unreadable(
    transform: ops.OutputTransformOp, user: ir.Operation, value: ir.Value, indexing_map: ir.AffineMap
) -> NoMatch | None:
    """Why an epilogue can't read `value` as `user` does: its own result as it is, others as kernels can."""
    result_type = ir.RankedTensorType(transform.result.type)
    if value == transform.result:
        is_in_place = indexing_map == ir.AffineMap.get_identity(result_type.rank)
        return None if is_in_place else NoMatch(user, f"it reads the convolution's output at {indexing_map}")
    operand = match_epilogue_operand(user, value, indexing_map, result_type)
    return operand if isinstance(operand, NoMatch) else None


def _build_fused(transform: ops.OutputTransformOp, consumer: Elementwise) -> ops.OutputTransformOp:
    """Build the transform whose epilogue is that of `transform`, then the body of `consumer`."""
    inputs = list(zip(consumer.inputs, consumer.indexing_maps, strict=True))
    if not consumer.reads_init:
        inputs.pop()
    numbers = {value: number for value, _ in inputs if (number := _number(value)) is not None}
    own = list(zip(transform.epilogue_operands, transform.indexing_maps, strict=True))
    known = {read: own.index(read) for read in inputs if read in own}
    added = [
        _build_operand(transform, consumer.operation, *read)
        for read in inputs
        if read[0] != transform.result and read[0] not in numbers and read not in known
    ]
    fused = ops.output_transform(
        ir.RankedTensorType(consumer.result.type),
        transform.accumulator,
        transform.decomposition,
        transform.groups,
        [*transform.epilogue_operands, *(operand.value for operand in added)],
        [*transform.indexing_maps, *(operand.indexing_map for operand in added)],
    )
    arguments = list(fused.body.arguments)
    own_count = 1 + len(transform.epilogue_operands)
    with ir.InsertionPoint(fused.body):
        (output,) = inline_block(transform.body, arguments[:own_count])
        elements = iter(arguments[own_count:])
        consumer_arguments = [
            output
            if value == transform.result
            else arith.constant(value.type.element_type, numbers[value])
            if value in numbers
            else arguments[1 + known[value, indexing_map]]
            if (value, indexing_map) in known
            else next(elements)
            for value, indexing_map in inputs
        ]
        if not consumer.reads_init:
            # The argument for the init has no uses, any value stands in for it.
            consumer_arguments.append(output)
        (result,) = inline_block(consumer.body, consumer_arguments)
        ops.yield_value(result)
    return fused


def _build_operand(
    transform: ops.OutputTransformOp, user: ir.Operation, value: ir.Value, indexing_map: ir.AffineMap
) -> EpilogueOperand:
    result_type = ir.RankedTensorType(transform.result.type)
    operand = match_epilogue_operand(user, value, indexing_map, result_type)
    assert isinstance(operand, EpilogueOperand), "an operand that can't be read ends the chain"
    return build_epilogue_operand(operand)


def _number(value: ir.Value) -> float | None:
    """The number that `value` is everywhere, which the epilogue needs no operand for."""
    source, _ = broadcast_source(value, ir.AffineMap.get_identity(ir.RankedTensorType(value.type).rank))
    return uniform_constant(source)
