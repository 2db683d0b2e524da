"""What tells constants apart without reading them."""

from __future__ import annotations

from collections.abc import Hashable

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.navigation import defining_operation
from iree.winograd.passes.match.reversal import match_reversal

_OF_FIRST_OPERAND = (
    "linalg.transpose",
    "tensor.collapse_shape",
    "tensor.expand_shape",
    "tensor.extract_slice",
)


def constant_identity(value: ir.Value) -> Hashable | None:
    """Equal for constants that are the same resource, transposed, reshaped, reversed and sliced alike.

    None for what is computed otherwise.
    """
    operation = defining_operation(value)
    if operation is None:
        return None
    if operation.name == "arith.constant":
        constant: Hashable = operation.attributes["value"]
        return constant
    if operation.name in _OF_FIRST_OPERAND:
        how = tuple((name, operation.attributes[name]) for name in operation.attributes)
        return _with(constant_identity(operation.operands[0]), operation.name, how, value.type)
    reversal = match_reversal(operation)
    if reversal is None:
        return None
    return _with(constant_identity(reversal.source), reversal.permutation, reversal.reversed)


def _with(source: Hashable | None, *how: Hashable) -> Hashable | None:
    return None if source is None else (source, *how)
