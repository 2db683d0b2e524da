"""Runs a function on tensors in numpy, in float64: what programs mean, before and after a pass."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
from iree.winograd.dialect import ops, reference
from iree.winograd.dialect.bindings import ir, linalg_structure
from iree.winograd.passes.match.values.constants import constant_array

ARITHMETIC: dict[str, Callable] = {
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.divf": np.divide,
    "arith.maximumf": np.maximum,
    "arith.muli": lambda a, b: a * b,
    "arith.select": np.where,
    "math.sqrt": np.sqrt,
    "math.tanh": np.tanh,
}


def run_function(function: ir.Operation, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of `function` for `arguments`."""
    return run_with_values(function, arguments)[0]


def run_with_values(
    function: ir.Operation, arguments: Sequence[np.ndarray]
) -> tuple[list[np.ndarray], dict[ir.Value, np.ndarray]]:
    """The results of `function` for `arguments`, and all that its block computes on the way."""
    block = function.regions[0].blocks[0]
    values = dict(zip(block.arguments, map(np.float64, arguments), strict=True))
    return run_block(block, values), values


def run_block(block: ir.Block, values: dict) -> list:
    for view in block.operations:
        operation = view.operation
        operands = [values[operand] for operand in operation.operands]
        if operation.name in ("func.return", "util.return", "linalg.yield", "tensor.yield", "vector.yield"):
            return operands
        if operation.name == "cf.assert":
            assert np.all(operands[0])
            continue
        values[operation.results[0]] = run_operation(operation, operands, values)
    raise AssertionError("a block ends without a terminator")


def run_operation(operation: ir.Operation, operands: list, values: dict):
    name = operation.name
    if name == "arith.constant":
        return constant(operation)
    if name in ARITHMETIC:
        return ARITHMETIC[name](*operands)
    if name == "arith.cmpf":
        # Only the predicates of a ReLU and a clamp, for numbers: ogt, ugt and ult.
        return {2: np.greater, 9: np.greater, 11: np.less}[operation.attributes["predicate"].value](*operands)
    if name == "tensor.dim":
        return operands[0].shape[operands[1]]
    if name == "tensor.empty":
        return np.full(static_shape(operation, operands), np.nan)
    if name == "tensor.pad":
        (element,) = run_block(operation.regions[0].blocks[0], dict(values))
        low, high = (list(operation.attributes[key]) for key in ("static_low", "static_high"))
        return np.pad(operands[0], list(zip(low, high, strict=True)), constant_values=element)
    if name in ("tensor.expand_shape", "tensor.collapse_shape"):
        shape = operation.results[0].type.shape
        return operands[0].reshape(
            [-1 if size == ir.ShapedType.get_dynamic_size() else size for size in shape]
        )
    if name == "tensor.concat":
        return np.concatenate(operands, operation.attributes["dim"].value)
    if name == "tensor.extract_slice":
        return operands[0][slices(operation)].reshape(operation.results[0].type.shape)
    if name == "tensor.insert_slice":
        result = operands[1].copy()
        result[slices(operation)] = operands[0]
        return result
    if name.startswith("winograd."):
        return run_winograd(operation.opview, operands)
    if name.startswith("linalg."):
        return run_linalg(operation, operands, values)
    raise NotImplementedError(name)


def constant(operation: ir.Operation):
    array = constant_array(operation.results[0])
    return operation.attributes["value"].value if array is None else np.float64(array)


def static_shape(operation: ir.Operation, sizes: list[int]) -> list[int]:
    remaining = iter(sizes)
    dynamic = ir.ShapedType.get_dynamic_size()
    return [next(remaining) if size == dynamic else size for size in operation.results[0].type.shape]


def slices(operation: ir.Operation) -> tuple[slice, ...]:
    lists = (operation.attributes[f"static_{key}"] for key in ("offsets", "sizes", "strides"))
    dynamic = ir.ShapedType.get_dynamic_size()
    return tuple(
        # Sizes known only at run time are those of the batch, all of it.
        slice(None) if size == dynamic else slice(offset, offset + (size - 1) * stride + 1, stride)
        for offset, size, stride in zip(*lists, strict=True)
    )


def run_winograd(op, operands: list) -> np.ndarray:
    if isinstance(op, ops.InputTransformOp):
        return reference.input_transform(
            operands[0],
            op.decomposition,
            op.padding_low,
            op.padding_high,
            op.groups,
            channels_first=op.channels_first,
        )
    if isinstance(op, ops.FilterTransformOp):
        weights = operands[0].transpose(op.permutation)
        if op.flipped:
            weights = np.flip(weights, axis=tuple(range(op.decomposition.spatial_rank)))
        return reference.filter_transform(weights, op.decomposition, op.groups)
    if isinstance(op, ops.GradientTransformOp):
        return reference.gradient_transform(operands[0], op.decomposition, op.groups)
    if isinstance(op, ops.FilterGradientOp):
        return reference.filter_gradient(operands[0], op.decomposition, op.groups)
    assert isinstance(op, ops.OutputTransformOp)
    spatial = op.image_type.shape[1:-1]
    outputs = reference.output_transform(operands[0], op.decomposition, spatial, op.groups)
    index = np.indices(outputs.shape, sparse=True)
    elements = [
        gather(operand, indexing_map, index)
        for operand, indexing_map in zip(operands[1:], op.indexing_maps, strict=True)
    ]
    (result,) = run_block(op.body, dict(zip(op.body.arguments, [outputs, *elements], strict=True)))
    image = np.broadcast_to(result, outputs.shape)
    return np.moveaxis(image, -1, 1) if op.channels_first else image


def run_linalg(operation: ir.Operation, operands: list, values: dict) -> np.ndarray:
    """Any linalg operation with one result: its body for all loops, parallel ones at once."""
    maps = [ir.AffineMapAttr(attribute).value for attribute in linalg_structure.get_indexing_maps(operation)]
    sizes = loop_sizes(maps, operands)
    parallel = [result.position for result in maps[-1].results if isinstance(result, ir.AffineDimExpr)]
    kept = tuple(
        axis for axis, result in enumerate(maps[-1].results) if not isinstance(result, ir.AffineDimExpr)
    )
    reductions = [loop for loop in range(len(sizes)) if loop not in parallel]
    body = operation.regions[0].blocks[0]
    accumulator = np.squeeze(operands[-1], kept)
    for reduction in itertools.product(*(range(sizes[loop]) for loop in reductions)):
        index = dict(zip(reductions, reduction, strict=True))
        grid = np.indices([sizes[loop] for loop in parallel], sparse=True)
        index |= dict(zip(parallel, grid, strict=True))
        elements = [
            gather(operand, indexing_map, index)
            for operand, indexing_map in zip(operands[:-1], maps[:-1], strict=True)
        ]
        arguments = dict(zip(body.arguments, [*elements, accumulator], strict=True))
        (result,) = run_block(body, values | arguments)
        accumulator = np.broadcast_to(result, accumulator.shape)
    return np.expand_dims(accumulator, kept)


def loop_sizes(maps: list[ir.AffineMap], operands: list) -> list[int]:
    sizes: dict[int, int] = {}
    for indexing_map, operand in zip(maps, operands, strict=True):
        for result, size in zip(indexing_map.results, np.shape(operand), strict=True):
            if isinstance(result, ir.AffineDimExpr):
                assert sizes.setdefault(result.position, size) == size, "operands disagree on a loop's size"
    return [sizes[loop] for loop in range(maps[0].n_dims)]


def gather(operand, indexing_map: ir.AffineMap, index):
    if np.ndim(operand) == 0:
        return operand
    return operand[tuple(evaluate(result, index) for result in indexing_map.results)]


def evaluate(expression: ir.AffineExpr, index):
    if isinstance(expression, ir.AffineDimExpr):
        return index[expression.position]
    if isinstance(expression, ir.AffineConstantExpr):
        return expression.value
    left, right = evaluate(expression.lhs, index), evaluate(expression.rhs, index)
    return left + right if isinstance(expression, ir.AffineAddExpr) else left * right
