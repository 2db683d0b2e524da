"""Conversions between half and single precision: of tensors, element by element, and in bodies."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.elementwise import Elementwise, match_elementwise
from iree.winograd.passes.match.navigation import defining_operation
from iree.winograd.passes.match.values.constants import Array, scalar_constant
from iree.winograd.passes.match.values.half_precision import KEEPING_HALF, half_type

_WIDENING, _NARROWING = "arith.extf", "arith.truncf"
ROUNDING = (_NARROWING, _WIDENING)
"""What rounds a number to half precision, one after the other, and leaves it in single precision."""


def widened_source(value: ir.Value) -> ir.Value | None:
    """The tensor of half precision that `value` holds the elements of; None where it is anything else."""
    definition = defining_operation(value)
    return None if definition is None else _converted(definition, [_WIDENING])


def is_widening(operation: ir.Operation) -> bool:
    """Whether `operation` widens the elements of a tensor from half precision, and does nothing else."""
    return _converted(operation, [_WIDENING]) is not None


def is_narrowing(operation: ir.Operation) -> bool:
    """Whether `operation` rounds the elements of a tensor to half precision, and does nothing else."""
    return _converted(operation, [_NARROWING]) is not None


def rounding_type(operation: ir.Operation) -> ir.Type | None:
    """The type of half precision whose numbers `operation` rounds a tensor in f32 to; None for any other.

    The result is in f32, too.
    """
    if _converted(operation, ROUNDING) is None:
        return None
    (first, *_) = operation.regions[0].blocks[0].operations
    return half_type(first.operation.results[0])


def rounded_to(operation: ir.Operation) -> ir.Type | None:
    """The type of half precision that an operation rounds a tensor to, whether the result is f32 or not."""
    return half_type(operation.results[0]) if is_narrowing(operation) else rounding_type(operation)


def only_computation(elementwise: Elementwise, *, rounds: bool = False) -> ir.Operation | None:
    """What the body does, beside stating constants, and yields; None where it does more.

    With `rounds` its number may be rounded to half precision, and widened, before it is yielded.
    """
    operations = (view.operation for view in elementwise.body.operations)
    first, *others = (each for each in operations if each.name != "arith.constant")
    names = [each.name for each in others]
    if names != ["linalg.yield"] and (not rounds or names != [*ROUNDING, "linalg.yield"]):
        return None
    number = first
    for each in others:
        if list(each.operands) != list(number.results):
            return None
        number = each
    return first


def rounded_type(
    number: ir.Value,
    of_argument: Callable[[ir.Value], ir.Type | None] = lambda _: None,
    constant: Callable[[ir.Value], float | None] = scalar_constant,
) -> ir.Type | None:
    """The type of half precision that surely has an f32 number of a body; None where none has.

    It was rounded to that type, and what was done to it since chooses among such numbers or changes signs.
    `of_argument` tells the type of an argument of the body, `constant` the number that one is.
    """
    definition = defining_operation(number)
    if definition is None:
        return of_argument(number)
    if definition.name == _WIDENING:
        return half_type(definition.operands[0])
    if definition.name not in KEEPING_HALF:
        return None
    chosen = [operand for operand in definition.operands if operand.type == number.type]
    numbers = [known for operand in chosen if (known := constant(operand)) is not None]
    types = {rounded_type(each, of_argument, constant) for each in chosen if constant(each) is None}
    half = types.pop() if len(types) == 1 else None
    return half if half is not None and holds(half, np.array(numbers, np.float32)) else None


def holds(half: ir.Type, numbers: Array) -> bool:
    """Whether a type of half precision has all of these numbers of f32."""
    if isinstance(half, ir.BF16Type):
        return not bool((np.ascontiguousarray(numbers).view(np.uint32) & 0xFFFF).any())
    with np.errstate(over="ignore"):
        return bool(np.array_equal(numbers.astype(np.float16).astype(np.float32), numbers, equal_nan=True))


def _converted(operation: ir.Operation, names: Sequence[str]) -> ir.Value | None:
    """The tensor whose every element `operation` converts, in place, by the operations of these names."""
    elementwise = match_elementwise(operation)
    if not isinstance(elementwise, Elementwise) or len(elementwise.inputs) != 2 or elementwise.reads_init:
        return None
    ((source, indexing_map),) = elementwise.reads
    *body, terminator = (view.operation for view in elementwise.body.operations)
    if [each.name for each in body] != list(names):
        return None
    number: ir.Value = elementwise.body.arguments[0]
    halves = [half_type(number)]
    for each in body:
        if each.operands[0] != number:
            return None
        number = each.results[0]
        halves.append(half_type(number))
    is_in_place = indexing_map == ir.AffineMap.get_identity(indexing_map.n_dims)
    is_converted = is_in_place and terminator.operands[0] == number and any(halves)
    return source if is_converted else None
