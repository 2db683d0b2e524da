"""The replacement of a result that is moved before it is read."""

from __future__ import annotations

from collections.abc import Callable

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.navigation import defining_operation
from iree.winograd.passes.rewrite.erasure import erase_if_unused


def read_instead(reader: ir.Operation, value: ir.Value, moved: ir.Value) -> None:
    """Have `reader` read `moved` wherever it reads `value`."""
    for position, operand in enumerate(list(reader.operands)):
        if operand == value:
            reader.operands[position] = moved


def replace_moved(operation: ir.Operation, result: ir.Value, build: Callable[[], ir.Value]) -> None:
    """Replace `result` by what `build` makes there, and erase what made it.

    It is that of `operation`, or of the transposition that is all that reads it.
    """
    last = defining_operation(result)
    assert last is not None
    with operation.location, ir.InsertionPoint(last):
        built = build()
    result.replace_all_uses_with(built)
    erase_if_unused([last])
