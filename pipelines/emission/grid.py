"""How many workgroups a kernel has, as its executable counts them."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.navigation import defining_operation, operations_of

from .index import Index


def export_of(executable: ir.Operation) -> ir.Operation:
    """The operation of an executable that counts its kernel's workgroups, by the sizes that it is told."""
    (export,) = (each for each in operations_of(executable) if each.name == "stream.executable.export")
    return export


def copied_grid(executable: ir.Operation, function: ir.Block) -> list[Index]:
    """Emits how many workgroups there are, in the kernel, whose first numbers they are counted from."""
    export = export_of(executable)
    numbers = [argument for argument in function.arguments if isinstance(argument.type, ir.IndexType)]
    copies = dict(zip(export.regions[0].blocks[0].arguments, numbers, strict=False))
    *counting, returned = operations_of(export)
    for operation in counting:
        copy = operation.clone()
        for place, operand in enumerate(operation.operands):
            copy.operands[place] = copies[operand]
        copies.update(zip(operation.results, copy.results, strict=True))
    return [extent_of(copies[extent]) for extent in returned.operands]


def extent_of(value: ir.Value) -> Index:
    """An extent of a grid, known where it is a constant."""
    definition = defining_operation(value)
    if definition is not None and definition.name == "arith.constant":
        return Index(ir.IntegerAttr(definition.attributes["value"]).value)
    return Index(value)
