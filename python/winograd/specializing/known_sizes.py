"""Programs that leave sizes of their arguments open, with these known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from iree.winograd.dialect.bindings import PassManager, ir, tensor
from iree.winograd.passes.match.navigation import defining_operation, symbol_name, walk

_PASSES = "builtin.module(canonicalize,cse,resolve-shaped-type-result-dims,canonicalize,cse)"


def fix_sizes(module: ir.Module, entry: str, shapes: Sequence[Sequence[int]]) -> None:
    """Have the arguments of the function `entry` of `module` be tensors of these `shapes`.

    MLIR's canonicalization takes what is known through nearly all operations on tensors. Results keep their
    types:

        func.func @main(%image: tensor<1x3x?x?xf32>) -> tensor<1x8x?x?xf32>

    becomes, for 96x80,

        func.func @main(%image: tensor<1x3x96x80xf32>) -> tensor<1x8x?x?xf32>
    """
    with module.context, ir.Location.unknown():
        (function,) = (each for each in module.body.operations if symbol_name(each.operation) == entry)
        _fix_arguments(function.operation, shapes)
        passes = PassManager.parse(_PASSES)
        passes.run(module.operation)
        while _fix_concatenations(module):
            passes.run(module.operation)


def _fix_arguments(function: ir.Operation, shapes: Sequence[Sequence[int]]) -> None:
    block = function.regions[0].blocks[0]
    for argument, shape in zip(block.arguments, shapes, strict=True):
        open_type = ir.RankedTensorType(argument.type)
        known_type = ir.RankedTensorType.get(shape, open_type.element_type)
        if known_type != open_type:
            argument.set_type(known_type)
            with ir.InsertionPoint.at_block_begin(block):
                opened = tensor.CastOp(open_type, argument)
            argument.replace_all_uses_except(opened.result, opened.operation)
    type_ = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    inputs = [argument.type for argument in block.arguments]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, type_.results))


def _fix_concatenations(module: ir.Module) -> bool:
    """Take sizes through those of tensors whose sizes are known, which canonicalization stops at.

    Returns whether there were any.
    """
    open_ones = [
        (each, list(_known_operands(each)))
        for each in walk(module.operation)
        if each.name == "tensor.concat" and not ir.RankedTensorType(each.results[0].type).has_static_shape
    ]
    known_ones = [(each, operands) for each, operands in open_ones if len(operands) == len(each.operands)]
    for operation, operands in known_ones:
        dimension = ir.IntegerAttr(operation.attributes["dim"]).value
        types = [ir.RankedTensorType(operand.type) for operand in operands]
        shape = list(types[0].shape)
        shape[dimension] = sum(type_.shape[dimension] for type_ in types)
        with ir.InsertionPoint(operation):
            joined = tensor.ConcatOp(
                ir.RankedTensorType.get(shape, types[0].element_type), dimension, operands
            )
            opened = tensor.CastOp(operation.results[0].type, joined.result)
        operation.results[0].replace_all_uses_with(opened.result)
        operation.erase()
    return bool(known_ones)


def _known_operands(operation: ir.Operation) -> Iterator[ir.Value]:
    """Those of known sizes, before these were left out of their types."""
    for operand in operation.operands:
        cast = defining_operation(operand)
        value = cast.operands[0] if cast is not None and cast.name == "tensor.cast" else operand
        if ir.RankedTensorType(value.type).has_static_shape:
            yield value
