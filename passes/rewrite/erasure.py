"""Erasing what a rewrite left without uses."""

from __future__ import annotations

from collections.abc import Iterable

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.navigation import LAYOUT_CAST, defining_operation

# Operations of these dialects that the passes leave without uses have no effect of their own.
_PURE_DIALECTS = ("affine.", "arith.", "linalg.", "math.", "tensor.", "winograd.", LAYOUT_CAST)


def erase_if_unused(operations: Iterable[ir.Operation]) -> None:
    """Erase each of `operations` whose results aren't used, then what only it used, and so on.

    Operations that may have effects stay.
    """
    pending = list(dict.fromkeys(operations))
    while pending:
        operation = pending.pop()
        if not operation.name.startswith(_PURE_DIALECTS):
            continue
        if any(True for result in operation.results for _ in result.uses):
            continue
        for operand in operation.operands:
            definition = defining_operation(operand)
            if definition is not None and definition not in pending:
                pending.append(definition)
        operation.erase()


def erase_with_operands(operation: ir.Operation) -> None:
    """Erase an operation without uses, of any dialect, then what only it used, and so on."""
    definitions = [defining_operation(operand) for operand in operation.operands]
    operation.erase()
    erase_if_unused([each for each in definitions if each is not None])
