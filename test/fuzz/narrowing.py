"""A program of f32 as the same program of numbers of half precision, as importers write it."""

from __future__ import annotations

import numpy as np
from iree.winograd.dialect.bindings import ir, linalg_structure
from iree.winograd.passes.build.conversions import converted
from iree.winograd.passes.match.navigation import walk
from number_types import NumberType


def narrow(module: ir.Operation, numbers: NumberType) -> None:
    """Have `module` hold and compute `numbers` where it holds and computes f32, in place.

    Every other convolution sums in f32 and is rounded behind, as torch has them; the others are of one type,
    as JAX's. What indices are computed by stays in f32.
    """
    if numbers.is_computed:
        return
    kept = _index_arithmetic(module)
    for operation in list(walk(module)):
        if operation not in kept:
            _narrow(operation, numbers)
    named = [each for each in walk(module) if each.name.startswith("linalg.") and "conv_" in each.name]
    for convolution in named[::2]:
        _sum_in_single_precision(convolution)


def _index_arithmetic(module: ir.Operation) -> set[ir.Operation]:
    """What computes a position in f32: from an integer of 64 bits to another one."""
    kept: set[ir.Operation] = set()
    for operation in walk(module):
        if operation.name == "arith.sitofp" and operation.operands[0].type.width == 64:
            kept.add(operation)
            continue
        operands = list(map(_definition, operation.operands))
        if operation.name in ("arith.divf", "math.floor") and any(each in kept for each in operands):
            kept.update(each for each in operands if each is not None)
            kept.add(operation)
    return kept


def _definition(value: ir.Value) -> ir.Operation | None:
    return value.owner.operation if isinstance(value, ir.OpResult) else None


def _narrow(operation: ir.Operation, numbers: NumberType) -> None:
    for result in operation.results:
        result.set_type(_narrowed(result.type, numbers))
    for region in operation.regions:
        for block in region.blocks:
            for argument in block.arguments:
                argument.set_type(_narrowed(argument.type, numbers))
    if operation.name == "func.func":
        type_ = ir.TypeAttr(operation.attributes["function_type"]).value
        inputs, results = (
            [_narrowed(each, numbers) for each in part] for part in (type_.inputs, type_.results)
        )
        operation.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, results))
    elif operation.name == "arith.constant":
        operation.attributes["value"] = _constant(operation, numbers)


def _narrowed(type_: ir.Type, numbers: NumberType) -> ir.Type:
    half = ir.Type.parse(numbers.name)
    if isinstance(type_, ir.RankedTensorType):
        return ir.RankedTensorType.get(list(type_.shape), _narrowed(type_.element_type, numbers))
    return half if isinstance(type_, ir.F32Type) else type_


def _constant(operation: ir.Operation, numbers: NumberType) -> ir.Attribute:
    value = operation.attributes["value"]
    half = ir.Type.parse(numbers.name)
    if isinstance(value, ir.FloatAttr):
        return ir.FloatAttr.get(half, float(numbers.nearest(value.value)))
    if not isinstance(value, ir.DenseElementsAttr) or operation.results[0].type.element_type != half:
        return value
    if value.is_splat:
        number = float(numbers.nearest(ir.FloatAttr(value.get_splat_value()).value))
        return ir.DenseElementsAttr.get_splat(operation.results[0].type, ir.FloatAttr.get(half, number))
    bits = numbers.stored(np.array(value)).view(np.uint16)
    return ir.DenseElementsAttr.get(np.ascontiguousarray(bits), type=half, shape=list(bits.shape))


def _sum_in_single_precision(convolution: ir.Operation) -> None:
    *operands, init = convolution.operands
    result = convolution.results[0]
    attributes = {name: convolution.attributes[name] for name in convolution.attributes}
    with convolution.location, ir.InsertionPoint(convolution):
        sums = converted(init, ir.F32Type.get())
        single = ir.Operation.create(
            convolution.name,
            results=[sums.type],
            operands=[*operands, sums],
            attributes=attributes,
            regions=1,
        )
        linalg_structure.fill_builtin_region(single)
        rounded = converted(single.results[0], result.type.element_type)
    result.replace_all_uses_with(rounded)
    convolution.erase()
