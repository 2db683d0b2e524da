"""Move elementwise consumers into the output transform."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from iree.winograd.dialect import ops
from iree.winograd.dialect.bindings import arith, ir, tensor
from iree.winograd.passes.constants import constant_array, is_constant, resource_constant, uniform_constant
from iree.winograd.passes.elementwise import Elementwise, broadcast_source, match_elementwise
from iree.winograd.passes.registry import register_pass
from iree.winograd.passes.rewrite import (
    defining_operation,
    erase_if_unused,
    inline_block,
    only_user,
    transforms,
)


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
        for transform in transforms(module, ops.OutputTransformOp):
            _fuse_consumers(transform)


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
    return None if _captures(consumer.body) else consumer


def _is_readable(transform: ops.OutputTransformOp, value: ir.Value, indexing_map: ir.AffineMap) -> bool:
    """Whether an epilogue can read `value`: its own result as it is, others with channels innermost."""
    rank = ir.RankedTensorType(transform.result.type).rank
    if value == transform.result:
        return bool(indexing_map == ir.AffineMap.get_identity(rank))
    if value.type.element_type != transform.result.type.element_type:
        return False
    source, read = broadcast_source(value, indexing_map)
    if not all(isinstance(index, ir.AffineDimExpr | ir.AffineConstantExpr) for index in read.results):
        return False
    channel = ir.AffineExpr.get_dim(rank - 1)
    outer = [read.results[dimension] for dimension in _kept_dimensions(source, read)[:-1]]
    return channel not in outer


def _captures(body: ir.Block) -> bool:
    """Whether `body` uses a value from outside that isn't a constant."""
    for view in body.operations:
        for operand in view.operation.operands:
            definition = defining_operation(operand)
            if definition is None:
                if operand.owner != body:
                    return True
            elif definition.block != body and definition.name != "arith.constant":
                return True
    return False


def _build_fused(transform: ops.OutputTransformOp, consumer: Elementwise) -> ops.OutputTransformOp:
    """Build the transform whose epilogue is that of `transform`, then the body of `consumer`."""
    inputs = list(zip(consumer.inputs, consumer.indexing_maps, strict=True))
    if not consumer.reads_init:
        inputs.pop()
    numbers = {value: number for value, _ in inputs if (number := _number(value)) is not None}
    added = [
        (value, indexing_map)
        for value, indexing_map in inputs
        if value != transform.result and value not in numbers
    ]
    simplified = [_smallest_operand(value, indexing_map) for value, indexing_map in added]
    fused = ops.output_transform(
        ir.RankedTensorType(consumer.result.type),
        transform.accumulator,
        transform.decomposition,
        transform.groups,
        [*transform.epilogue_operands, *(value for value, _ in simplified)],
        [*transform.indexing_maps, *(indexing_map for _, indexing_map in simplified)],
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


def _number(value: ir.Value) -> float | None:
    """The number that `value` is everywhere, which the epilogue needs no operand for."""
    source, _ = broadcast_source(value, ir.AffineMap.get_identity(ir.RankedTensorType(value.type).rank))
    return uniform_constant(source)


def _smallest_operand(value: ir.Value, indexing_map: ir.AffineMap) -> tuple[ir.Value, ir.AffineMap]:
    """The smallest tensor to read an epilogue's operand from, computed now if from constants."""
    value, indexing_map = broadcast_source(value, indexing_map)
    definition = defining_operation(value)
    if is_constant(value) and definition is not None and definition.name != "arith.constant":
        array = constant_array(value)
        value = value if array is None else resource_constant(array, "epilogue")
    return _without_unit_dimensions(value, indexing_map)


def _kept_dimensions(value: ir.Value, indexing_map: ir.AffineMap) -> list[int]:
    """The dimensions of `value` that are not of size 1 and read at a constant."""
    shape = ir.RankedTensorType(value.type).shape
    return [
        dimension
        for dimension, (size, index) in enumerate(zip(shape, indexing_map.results, strict=True))
        if size != 1 or not isinstance(index, ir.AffineConstantExpr)
    ]


def _without_unit_dimensions(value: ir.Value, indexing_map: ir.AffineMap) -> tuple[ir.Value, ir.AffineMap]:
    kept = _kept_dimensions(value, indexing_map)
    shape = ir.RankedTensorType(value.type).shape
    if len(kept) in (0, len(shape)):
        return value, indexing_map
    starts = [0, *kept[1:], len(shape)]
    groups = [list(range(start, end)) for start, end in pairwise(starts)]
    collapsed_type = ir.RankedTensorType.get(
        [shape[dimension] for dimension in kept], value.type.element_type
    )
    results = [indexing_map.results[dimension] for dimension in kept]
    return (
        tensor.collapse_shape(collapsed_type, value, groups),
        ir.AffineMap.get(indexing_map.n_dims, 0, results),
    )
