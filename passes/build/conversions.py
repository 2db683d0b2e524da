"""Numbers, and elements of tensors, in other floating-point types."""

from __future__ import annotations

from functools import reduce

import numpy as np
from iree.winograd.dialect.bindings import arith, ir, tensor
from iree.winograd.passes.build.constants import resource_constant
from iree.winograd.passes.build.generic import build_elementwise
from iree.winograd.passes.build.tensors import shape_of
from iree.winograd.passes.match.convolutions.concatenated import is_stored
from iree.winograd.passes.match.convolutions.exact_type import held_type
from iree.winograd.passes.match.navigation import defining_operation
from iree.winograd.passes.match.values.conversions import widened_source
from iree.winograd.passes.match.values.elements import constant_elements


def converted(value: ir.Value, *types: ir.Type) -> ir.Value:
    """Build a number, or a tensor of numbers, converted to each of `types` in turn."""
    if not isinstance(value.type, ir.RankedTensorType):
        return reduce(_convert, types, value)
    identity = ir.AffineMap.get_identity(ir.RankedTensorType(value.type).rank)
    init = tensor.empty(shape_of(value), types[-1])
    return build_elementwise([(value, identity)], init, lambda elements: reduce(_convert, types, elements[0]))


def in_held_type(tensor: ir.Value, half: ir.Type) -> ir.Value:
    """Build a tensor of f32 in a type of half precision, if that surely has all of its elements.

    The same tensor where that isn't known, or where it stays in f32 for others, so that it would be converted
    in memory. What makes it has rounded it.
    """
    if held_type(tensor) != half or not is_stored(tensor, half):
        return tensor
    return widened_source(tensor) or converted(tensor, half)


def single_constant(value: ir.Value) -> ir.Value | None:
    """Build the constant that `value` is, in f32; None where it is none whose elements are known."""
    definition = defining_operation(value)
    if definition is None or definition.name != "arith.constant":
        return None
    single = ir.F32Type.get()
    attribute = definition.attributes["value"]
    if isinstance(attribute, ir.FloatAttr):
        return arith.constant(single, attribute.value)
    type_ = ir.RankedTensorType.get(list(value.type.shape), single)
    if isinstance(attribute, ir.DenseElementsAttr) and attribute.is_splat:
        element = ir.FloatAttr.get(single, attribute.get_splat_value().value)
        return arith.constant(type_, ir.DenseElementsAttr.get_splat(type_, element))
    elements = constant_elements(definition)
    return None if elements is None else resource_constant(elements.astype(np.float32), "widened")


def _convert(value: ir.Value, type_: ir.Type) -> ir.Value:
    is_wider = type_.width > value.type.width
    return arith.extf(type_, value) if is_wider else arith.truncf(type_, value)
