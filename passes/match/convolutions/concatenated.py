"""What a tensor is concatenated with."""

from __future__ import annotations

from collections.abc import Iterator

from iree.winograd.dialect import ops
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.convolutions.exact_type import held_type
from iree.winograd.passes.match.navigation import RESHAPES, defining_operation
from iree.winograd.passes.match.values.conversions import widened_source

_MOVING = (*RESHAPES, "tensor.extract_slice")
_INSERTION, _CONCATENATION = "tensor.insert_slice", "tensor.concat"


def is_stored(tensor: ir.Value, half: ir.Type) -> bool:
    """Whether a tensor of f32, all of which `half` holds, is stored in that, or will be where others read it.

    It stays in f32 as part of a larger one, unless convolutions compute all parts and round them.
    """
    if widened_source(tensor) is not None:
        return True
    definition = defining_operation(tensor)
    if definition is not None and definition.name in _MOVING:
        return is_stored(definition.operands[0], half)
    parts = [part for use in tensor.uses for part in _parts(use.owner.operation, use.operand_number)]
    if definition is not None:
        parts += _parts(definition, 0)
    return all(held_type(part) == half and _is_convolved(part) for part in parts)


def _is_convolved(value: ir.Value) -> bool:
    definition = defining_operation(value)
    return definition is not None and definition.name == ops.OutputTransformOp.OPERATION_NAME


def _parts(user: ir.Operation, operand: int) -> Iterator[ir.Value]:
    """All parts of the tensor that `user` makes of that operand and others; none where it makes another."""
    if user.name == _CONCATENATION:
        yield from user.operands
    if user.name != _INSERTION or operand != 0:
        return
    first = user
    while (before := defining_operation(first.operands[1])) is not None and before.name == _INSERTION:
        first = before
    insertion: ir.Operation | None = first
    while insertion is not None:
        yield insertion.operands[0]
        whole = insertion.results[0]
        behind = [use.owner.operation for use in whole.uses if use.operand_number == 1]
        insertion = next((each for each in behind if each.name == _INSERTION), None)
