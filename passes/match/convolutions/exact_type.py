"""The types of half precision that operands in f32 have, and that results are rounded to."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from iree.winograd.dialect import ops
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.elementwise import match_elementwise
from iree.winograd.passes.match.layouts.padding import filled_number
from iree.winograd.passes.match.navigation import defining_operation, is_empty
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.pixels.resampling import Resampling, match_resampling
from iree.winograd.passes.match.pixels.selected_pixels import match_selected_pixels
from iree.winograd.passes.match.reversal import match_reversal
from iree.winograd.passes.match.values.constants import constant_array, scalar_constant, uniform_constant
from iree.winograd.passes.match.values.conversions import holds, rounded_type, widened_source
from iree.winograd.passes.match.values.half_precision import half_type

_MOVING = (
    "linalg.transpose",
    "tensor.cast",
    "tensor.collapse_shape",
    "tensor.expand_shape",
    "tensor.extract_slice",
)
"""Whose results are elements of their first operand."""


def exact_type(image: ir.Value, filters: ir.Value) -> str | None:
    """The type, f16 or bf16, that holds all numbers of both operands; None where that isn't known."""
    half = held_type(image)
    if half is None:
        return None
    elements = constant_array(filters)
    if elements is None:
        return str(half) if held_type(filters) == half else None
    return str(half) if holds(half, elements.astype(np.float32, copy=False)) else None


def rounded_result_type(result: ir.Value) -> str | None:
    """The type, f16 or bf16, that whatever reads a result in f32 rounds it to; None where something doesn't.

    An elementwise operation rounds what it reads where its own result is rounded, by itself or by what alone
    reads it: the sum of a linear layer and its bias is rounded by an operation of its own.
    """
    if half_type(result) is not None:
        return None
    types = {_rounding_of(use.owner.operation) for use in result.uses}
    return types.pop() if len(types) == 1 else None


def _rounding_of(user: ir.Operation) -> str | None:
    if user.name in _MOVING:
        return rounded_result_type(user.results[0])
    elementwise = match_elementwise(user)
    if isinstance(elementwise, NoMatch) or not user.name.startswith("linalg.generic"):
        return None
    half = half_type(elementwise.yielded) or rounded_type(elementwise.yielded)
    if half is not None:
        return str(half)
    (result,) = user.results
    return rounded_result_type(result) if len(list(result.uses)) == 1 else None


def held_type(tensor: ir.Value) -> ir.Type | None:
    """The type of half precision that surely has the elements of a tensor of f32."""
    definition = defining_operation(tensor)
    if definition is None or half_type(tensor) is not None:
        return None
    if (source := widened_source(tensor)) is not None:
        return half_type(source)
    if _is_maximum(definition):
        return held_type(definition.operands[0])
    if (moved := _moved(definition)) is not None:
        return held_type(moved)
    if definition.name == "tensor.pad":
        (terminator,) = (view.operation for view in definition.regions[0].blocks[0].operations)
        return _held_beside(definition.operands[0], scalar_constant(terminator.operands[0]))
    if definition.name == ops.OutputTransformOp.OPERATION_NAME:
        *_, end = ops.OutputTransformOp(definition).body.operations
        return rounded_type(end.operation.operands[0])
    if definition.name == "tensor.concat":
        return _common_type(definition.operands)
    if definition.name == "tensor.insert_slice":
        part, whole, *_ = definition.operands
        if is_empty(whole):
            return held_type(part)
        number = filled_number(whole)
        return _common_type([part, whole]) if number is None else _held_beside(part, number)
    elementwise = match_elementwise(definition)
    if isinstance(elementwise, NoMatch) or not definition.name.startswith("linalg.generic"):
        return None
    resampling = match_resampling(definition)
    if isinstance(resampling, Resampling) and all(axis.taps == 1 for axis in resampling.axes.values()):
        return held_type(resampling.source)
    operands = dict(zip(elementwise.body.arguments, elementwise.inputs, strict=True))

    def held(argument: ir.Value) -> ir.Type | None:
        return held_type(operands[argument]) if argument in operands else None

    def constant(number: ir.Value) -> float | None:
        # Bounds may be tensors of one element.
        return uniform_constant(operands[number]) if number in operands else scalar_constant(number)

    return rounded_type(elementwise.yielded, held, constant)


def _moved(operation: ir.Operation) -> ir.Value | None:
    """The tensor whose elements an operation has in other places; None where it does anything else."""
    if operation.name in _MOVING:
        return operation.operands[0]
    if (reversal := match_reversal(operation)) is not None:
        return reversal.source
    selected = match_selected_pixels(operation)
    return None if selected is None else selected.image


def _common_type(tensors: Iterable[ir.Value]) -> ir.Type | None:
    types = {held_type(tensor) for tensor in tensors}
    return types.pop() if len(types) == 1 else None


def _is_maximum(operation: ir.Operation) -> bool:
    """Whether it is pooling whose results are elements of the image."""
    name = str(operation.name)
    return name.startswith("linalg.pooling_") and name.endswith("_max")


def _held_beside(tensor: ir.Value, padding: float | None) -> ir.Type | None:
    """The type that surely has the elements of a tensor, and a number beside them; None stands for others."""
    half = held_type(tensor)
    if padding is None or half is None:
        return None
    return half if holds(half, np.array([padding], np.float32)) else None
