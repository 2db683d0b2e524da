"""Move elementwise consumers into the output transform."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect import ops
from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.passes.build.bodies import inline_block
from iree.winograd.passes.build.epilogue_operand import build_epilogue_operand
from iree.winograd.passes.frame.containment import rewrite_each
from iree.winograd.passes.frame.registry import register_pass
from iree.winograd.passes.match.constants import uniform_constant
from iree.winograd.passes.match.elementwise import Elementwise, broadcast_source, captures, match_elementwise
from iree.winograd.passes.match.epilogue_operand import EpilogueOperand, match_epilogue_operand
from iree.winograd.passes.match.navigation import only_user, transforms
from iree.winograd.passes.rewrite.erasure import erase_if_unused


@register_pass("winograd-fuse-epilogue")
@dataclass(frozen=True)
class FuseEpilogue:
    """Move elementwise consumers into the output transform.

    Chains of elementwise operations that only they use (bias, batch norm, ReLU, a residual's addition, ...)
    become the transform's epilogue, applied to each output while it is in a register. Their other operands
    become operands of the transform with the maps to read them; broadcasts are read at their source, and what
    is computed from constants alone, such as `1 / sqrt(variance + epsilon)`, is evaluated in float64 here. An
    operation with several results, one that changes the element type, and one that reads the convolution's
    output transposed or another operand with its channels anywhere but innermost end the chain.

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
    while (consumer := _fusible_consumer(transform)) is not None:
        with consumer.operation.location, ir.InsertionPoint(consumer.operation):
            fused = _build_fused(transform, consumer)
        consumer.result.replace_all_uses_with(fused.result)
        erase_if_unused([consumer.operation, transform.operation])
        transform = fused


def _fusible_consumer(transform: ops.OutputTransformOp) -> Elementwise | None:
    user = only_user(transform.result)
    if user is None or user.block != transform.operation.block:
        return None
    consumer = match_elementwise(user)
    if consumer is None or not consumer.is_pure or consumer.result.type != transform.result.type:
        return None
    if not all(
        _is_readable(transform, *read) for read in zip(consumer.inputs, consumer.indexing_maps, strict=True)
    ):
        return None
    if len(transform.epilogue_operands) + len(consumer.inputs) - 1 > ops.MAX_EPILOGUE_OPERANDS:
        return None
    return None if captures(consumer.body) else consumer


def _is_readable(transform: ops.OutputTransformOp, value: ir.Value, indexing_map: ir.AffineMap) -> bool:
    """Whether an epilogue can read `value`: its own result as it is, others as kernels can."""
    result_type = ir.RankedTensorType(transform.result.type)
    if value == transform.result:
        return bool(indexing_map == ir.AffineMap.get_identity(result_type.rank))
    return match_epilogue_operand(value, indexing_map, result_type) is not None


def _build_fused(transform: ops.OutputTransformOp, consumer: Elementwise) -> ops.OutputTransformOp:
    """Build the transform whose epilogue is that of `transform`, then the body of `consumer`."""
    inputs = list(zip(consumer.inputs, consumer.indexing_maps, strict=True))
    if not consumer.reads_init:
        inputs.pop()
    numbers = {value: number for value, _ in inputs if (number := _number(value)) is not None}
    added = [
        _build_operand(transform, value, indexing_map)
        for value, indexing_map in inputs
        if value != transform.result and value not in numbers
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
            else next(elements)
            for value, _ in inputs
        ]
        if not consumer.reads_init:
            # The argument for the init has no uses, any value stands in for it.
            consumer_arguments.append(output)
        (result,) = inline_block(consumer.body, consumer_arguments)
        ops.yield_value(result)
    return fused


def _build_operand(
    transform: ops.OutputTransformOp, value: ir.Value, indexing_map: ir.AffineMap
) -> EpilogueOperand:
    operand = match_epilogue_operand(value, indexing_map, ir.RankedTensorType(transform.result.type))
    assert operand is not None, "an operand that can't be read ends the chain"
    return build_epilogue_operand(operand)


def _number(value: ir.Value) -> float | None:
    """The number that `value` is everywhere, which the epilogue needs no operand for."""
    source, _ = broadcast_source(value, ir.AffineMap.get_identity(ir.RankedTensorType(value.type).rank))
    return uniform_constant(source)
