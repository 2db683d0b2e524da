"""Copies of what operations compute per element."""

from __future__ import annotations

from collections.abc import Sequence

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.navigation import defining_operation


def inline_block(block: ir.Block, arguments: Sequence[ir.Value]) -> list[ir.Value]:
    """Clone the operations of `block` to the current insertion point; returns what its terminator would.

    Constants that `block` uses from outside are cloned as well, so that the copy stands on its own.
    """
    values = dict(zip(block.arguments, arguments, strict=True))
    return inline_operations([view.operation for view in block.operations], values)


def inline_operations(operations: Sequence[ir.Operation], values: dict[ir.Value, ir.Value]) -> list[ir.Value]:
    """Clone `operations`, which end with a terminator, with `values` for operands; returns what it would."""
    *body, terminator = operations
    for operation in body:
        operands = [_inlined(operand, values) for operand in operation.operands]
        copy = operation.clone()
        for index, operand in enumerate(operands):
            copy.operands[index] = operand
        values |= dict(zip(operation.results, copy.results, strict=True))
    return [_inlined(operand, values) for operand in terminator.operands]


def _inlined(value: ir.Value, values: dict[ir.Value, ir.Value]) -> ir.Value:
    if value not in values:
        definition = defining_operation(value)
        if definition is None or definition.name != "arith.constant":
            return value
        values[value] = definition.clone().results[0]
    return values[value]
