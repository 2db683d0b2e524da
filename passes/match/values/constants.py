"""Values known at compile time, as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.elementwise import Elementwise, match_elementwise
from iree.winograd.passes.match.navigation import defining_operation
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.reversal import Reversal, match_reversal
from iree.winograd.passes.match.slices import match_slice
from iree.winograd.passes.match.values.elements import constant_elements, holds_elements
from iree.winograd.passes.match.values.evaluate import can_evaluate, evaluate_body
from iree.winograd.passes.match.values.half_precision import half_type

Array = npt.NDArray[Any]

# Arithmetic on constants is evaluated up to this many elements: per-channel constants, not images.
AT_LOAD_ATTRIBUTE = "winograd.folds_at_load"
"""Of a module in which what is computed of constants is to be computed when it is loaded."""
MAX_EVALUATED_ELEMENTS = 1 << 16
# The same where one of the constants has as many, as where filters are binarized or scaled.
MAX_EVALUATED_CONSTANT = 1 << 24

_OF_SAME_ELEMENTS = ("linalg.fill", "linalg.transpose", "tensor.collapse_shape", "tensor.expand_shape")

# Operations whose result holds elements of their first operand, with how many operands they have when their
# sizes are known at compile time.
_READ_IN_PLACE = {
    "linalg.transpose": 2,
    "tensor.collapse_shape": 1,
    "tensor.expand_shape": 1,
    "tensor.extract_slice": 1,
}


_INTEGERS = ("i1", "i8", "i16", "i32", "i64")


def is_zero(value: ir.Value) -> bool:
    """Whether `value` is a number, or a tensor filled with one, that is zero."""
    operation = defining_operation(value)
    if operation is not None and operation.name in _OF_SAME_ELEMENTS:
        return is_zero(operation.operands[0])
    if operation is None or operation.name != "arith.constant":
        return False
    attribute = operation.attributes["value"]
    if isinstance(attribute, ir.DenseElementsAttr) and attribute.is_splat:
        attribute = attribute.get_splat_value()
    return isinstance(attribute, ir.FloatAttr | ir.IntegerAttr) and bool(attribute.value == 0)


def is_splat(operation: ir.Operation) -> bool:
    """Whether `operation` is a constant tensor of one number."""
    if operation.name != "arith.constant":
        return False
    attribute = operation.attributes["value"]
    return isinstance(attribute, ir.DenseElementsAttr) and attribute.is_splat


def is_constant(value: ir.Value) -> bool:
    """Whether `value` is an f32 tensor that `constant_array` tells, but for failed assertions."""
    is_tensor = isinstance(value.type, ir.RankedTensorType)
    return is_tensor and isinstance(value.type.element_type, ir.F32Type) and _is_known(value)


def is_known_at_load(value: ir.Value) -> bool:
    """Whether `value` is a constant or an immutable global, a parameter for one, of sizes known here.

    It may be transposed, reshaped or sliced: what is computed of it alone, IREE computes when it loads a
    program.
    """
    operation = defining_operation(value)
    if (
        operation is None
        or not isinstance(value.type, ir.RankedTensorType)
        or not value.type.has_static_shape
    ):
        return False
    if operation.name == "util.global.load":
        return not is_mutable_global(operation)
    if operation.name in _READ_IN_PLACE and len(operation.operands) == _READ_IN_PLACE[operation.name]:
        return is_known_at_load(operation.operands[0])
    is_half = operation.name == "arith.constant" and half_type(value) is not None
    return is_half or is_constant(value)


def is_constant_operand(operand: ir.Value) -> bool:
    """Whether an operand of a dispatch is a number that is known here, or a tensor that is known at load."""
    definition = defining_operation(operand)
    is_number = definition is not None and definition.name == "arith.constant"
    return is_number or is_known_at_load(operand)


def constant_array(value: ir.Value) -> Array | None:
    """The elements of an f32 tensor that is known at compile time, read-only; None for any other.

    A constant that is transposed, reshaped, reversed or sliced is read in place. Elementwise arithmetic on
    small constants is evaluated in float64, and its result is float64.
    """
    return _constant_array(value) if is_constant(value) else None


def scalar_constant(value: ir.Value) -> float | None:
    """The floating-point number that a scalar constant is; None for any other value."""
    return None if isinstance(value.type, ir.IntegerType | ir.IndexType) else scalar_number(value)


def scalar_number(value: ir.Value) -> float | None:
    """The number that a scalar constant is, an integer among them; None for any other value."""
    operation = defining_operation(value)
    if operation is None or operation.name != "arith.constant":
        return None
    attribute = operation.attributes["value"]
    return float(attribute.value) if isinstance(attribute, ir.FloatAttr | ir.IntegerAttr) else None


def uniform_constant(value: ir.Value) -> float | None:
    """The number that all elements of a constant tensor are, if it is splat or has one; None otherwise."""
    operation = defining_operation(value)
    if operation is None or not is_constant(value):
        return None
    attribute = operation.attributes["value"] if operation.name == "arith.constant" else None
    if isinstance(attribute, ir.DenseElementsAttr) and attribute.is_splat:
        return float(attribute.get_splat_value().value)
    if int(np.prod(value.type.shape)) != 1:
        return None
    array = constant_array(value)
    return None if array is None else float(array.item())


def splat_element(value: ir.Value) -> ir.Attribute | None:
    """What all elements of a constant tensor are, of whatever type; None where it is no splat."""
    operation = defining_operation(value)
    if operation is None or operation.name != "arith.constant":
        return None
    attribute = operation.attributes["value"]
    is_splat = isinstance(attribute, ir.DenseElementsAttr) and attribute.is_splat
    return attribute.get_splat_value() if is_splat else None


def _constant_array(value: ir.Value) -> Array | None:
    operation = value.owner.operation
    if operation.name == "arith.constant":
        return constant_elements(operation)
    if operation.name == "linalg.transpose":
        source = _constant_array(operation.operands[0])
        return None if source is None else source.transpose(list(operation.attributes["permutation"]))
    if operation.name in ("tensor.expand_shape", "tensor.collapse_shape"):
        source = _constant_array(operation.operands[0])
        return None if source is None else source.reshape(value.type.shape)
    if operation.name == "tensor.extract_slice":
        source, part = _constant_array(operation.operands[0]), match_slice(operation)
        return None if source is None or part is None else source[part.of_array].reshape(value.type.shape)
    reversal = match_reversal(operation)
    if reversal is not None:
        source = _constant_array(reversal.source)
        return None if source is None else _reversed(source, reversal)
    return _evaluate(operation)


def _is_known(value: ir.Value) -> bool:
    """`is_constant`, also for tensors of truth values, that are compared and selected by, and of integers."""
    operation = defining_operation(value)
    if operation is None or not isinstance(value.type, ir.RankedTensorType):
        return False
    if str(value.type.element_type) not in ("f32", *_INTEGERS):
        return False
    if operation.name == "arith.constant":
        return holds_elements(operation.attributes["value"])
    if operation.name in _READ_IN_PLACE:
        is_static = len(operation.operands) == _READ_IN_PLACE[operation.name]
        return is_static and value.type.has_static_shape and _is_known(operation.operands[0])
    reversal = match_reversal(operation)
    if reversal is not None:
        return _is_known(reversal.source)
    return _is_constant_arithmetic(operation)


def is_mutable_global(load: ir.Operation) -> bool:
    """Whether what a `util.global.load` reads may change."""
    module = load
    while module.name != "builtin.module":
        module = module.parent.operation
    name = ir.FlatSymbolRefAttr(load.attributes["global"]).value
    return "is_mutable" in ir.SymbolTable(module)[name].operation.attributes


def _reversed(source: Array, reversal: Reversal) -> Array:
    steps = tuple(slice(None, None, -1 if is_reversed else 1) for is_reversed in reversal.reversed)
    reversed_: Array = source.transpose(reversal.permutation)[steps]
    return reversed_


def _is_constant_arithmetic(operation: ir.Operation) -> bool:
    if len(operation.results) != 1 or not isinstance(operation.results[0].type, ir.RankedTensorType):
        return False
    result_type = ir.RankedTensorType(operation.results[0].type)
    if not result_type.has_static_shape or (size := np.prod(result_type.shape)) > MAX_EVALUATED_CONSTANT:
        return False
    elementwise = match_elementwise(operation)
    if isinstance(elementwise, NoMatch) or elementwise.reads_init or not can_evaluate(elementwise.body):
        return False
    read = elementwise.inputs[:-1]
    if not all(map(_is_known, read)):
        return False
    return bool(size <= max([MAX_EVALUATED_ELEMENTS, *(np.prod(value.type.shape) for value in read)]))


def _evaluate(operation: ir.Operation) -> Array | None:
    elementwise = match_elementwise(operation)
    assert isinstance(elementwise, Elementwise), "arithmetic on constants is elementwise"
    inputs = [_constant_array(value) for value in elementwise.inputs[:-1]]
    known = [array for array in inputs if array is not None]
    if len(known) != len(inputs):
        return None
    shape = ir.RankedTensorType(elementwise.result.type).shape
    return evaluate_body(elementwise.body, known, elementwise.indexing_maps, shape, scalar_number)
