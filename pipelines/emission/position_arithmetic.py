"""Numbers that a program computes of positions, as part of a kernel."""

from __future__ import annotations

from collections.abc import Sequence

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.passes.match.epilogues.finishing import is_of_positions
from iree.winograd.passes.match.pixels.position_arithmetic import INTEGER, POSITION, PositionArithmetic

from .index import Index

_INDEX_CASTS = ("arith.index_cast", "arith.extsi", "arith.trunci")
"""Between integers of positions, which are small."""


def emit_position_arithmetic(
    arithmetic: PositionArithmetic, position: Index, integers: Sequence[Index]
) -> list[ir.Value]:
    """The results at a position, at the insertion point; integers among them are indices."""
    given = iter(integers)
    values: list[ir.Value] = []
    for step in arithmetic.steps:
        if step.operation is not None:
            operands = [values[each] for each in step.operands]
            values.append(scalar_of_positions(step.operation, operands, []))
        elif step.constant is not None:
            values.append(_constant(step.constant))
        else:
            assert step in (POSITION, INTEGER)
            values.append((position if step == POSITION else next(given)).value)
    return [values[each] for each in arithmetic.results]


def _constant(number: ir.Attribute) -> ir.Value:
    if isinstance(number, ir.IntegerAttr) and is_of_positions(number.type):
        return Index(number.value).value
    return arith.constant(number.type, number)


def scalar_of_positions(
    operation: ir.Operation, operands: Sequence[ir.Value], loops: Sequence[Index | None]
) -> ir.Value:
    """The result of an operation on numbers of positions; integers are indices."""
    index = ir.IndexType.get()
    type_ = operation.results[0].type
    is_integer = is_of_positions(type_)
    if operation.name == "linalg.index":
        loop = loops[ir.IntegerAttr(operation.attributes["dim"]).value]
        assert loop is not None, "pixels have no channel"
        return loop.value
    if operation.name == "arith.constant" and is_integer:
        return Index(ir.IntegerAttr(operation.attributes["value"]).value).value
    if operation.name in _INDEX_CASTS:
        return operands[0]
    if operation.name == "arith.sitofp":
        return arith.sitofp(type_, arith.index_cast(ir.IntegerType.get_signless(32), operands[0]))
    if operation.name == "arith.fptosi":
        return arith.index_cast(index, arith.fptosi(ir.IntegerType.get_signless(32), operands[0]))
    attributes = {name: operation.attributes[name] for name in operation.attributes}
    made = ir.Operation.create(operation.name, [index if is_integer else type_], operands, attributes)
    return made.results[0]
