"""Bodies of linalg operations on numbers of half precision, as bodies on f32 that round where those did."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.passes.match.values.constants import scalar_constant
from iree.winograd.passes.match.values.half_precision import KEEPING_HALF, half_type

Widened = Callable[[ir.Value], ir.Value]
"""From a value of half precision to the same in f32."""

_ROUNDED = ("arith.addf", "arith.subf", "arith.mulf", "arith.divf", "arith.sitofp", "arith.uitofp")
_READ = ("arith.cmpf", "arith.fptosi", "arith.fptoui")
_CONVERSIONS = ("arith.extf", "arith.truncf")
_ENDS = ("linalg.yield", "tensor.yield")


def can_widen(block: ir.Block) -> bool:
    """Whether `widen_body` knows all operations of `block` on numbers of half precision."""
    return all(_is_known(view.operation) for view in block.operations)


def _is_known(operation: ir.Operation) -> bool:
    if all(half_type(value) is None for value in (*operation.operands, *operation.results)):
        return not operation.regions
    name = operation.name
    known = name in KEEPING_HALF or name in _ROUNDED or name in _READ or name in _CONVERSIONS or name in _ENDS
    return known or name == "arith.constant" or name.startswith("math.")


def widen_body(block: ir.Block, widened: Widened, *, rounds: bool) -> ir.Type | None:
    """Has `block` compute in f32, in place; what it read from outside it reads by `widened`.

    A body is an operation of the model, such as a sigmoid, which tools compute in f32 and round once. So with
    `rounds` what the block yields is rounded, what it compares or makes integers of, and what it rounds
    itself. Of a single operation that is what half precision gives: f32 has more than twice the digits of
    f16 and bf16, and two more (Figueroa, SIGNUM Newsletter 30(3), 1995). Without, as for sums, nothing is;
    the result is then the type that what the block yields is yet to be rounded to, or None.
    """
    exact: set[ir.Value] = set()
    for argument in block.arguments:
        if half_type(argument) is not None:
            argument.set_type(ir.F32Type.get())
            exact.add(argument)
    halves: dict[ir.Value, ir.Type] = {}
    unrounded: ir.Type | None = None
    for operation in [view.operation for view in block.operations]:
        for number, operand in enumerate(operation.operands):
            if half_type(operand) is not None:
                operation.operands[number] = widened(operand)
                exact.add(operation.operands[number])
        if rounds and operation.name in (*_READ, *_ENDS, *_CONVERSIONS):
            _round_operands(operation, halves)
        if operation.name in _CONVERSIONS:
            unrounded = _convert(operation, exact, rounds=rounds) or unrounded
        elif operation.name == "arith.constant":
            _widen_constant(operation, exact)
        else:
            halves |= (widened_here := _widen_operation(operation, exact))
            if not rounds:
                unrounded = next(iter(widened_here.values()), unrounded)
    return unrounded


def _convert(operation: ir.Operation, exact: set[ir.Value], *, rounds: bool) -> ir.Type | None:
    """A conversion from half precision to f32 is none any longer; one to half precision rounds."""
    source, result = operation.operands[0], operation.results[0]
    half = half_type(result)
    if half is None:
        if source.type == result.type:
            result.replace_all_uses_with(source)
            operation.erase()
        return None
    if not rounds and isinstance(source.type, ir.F32Type):
        result.replace_all_uses_with(source)
        operation.erase()
        return half
    with operation.location, ir.InsertionPoint(operation):
        rounded = _rounded(source, half)
    exact.add(rounded)
    result.replace_all_uses_with(rounded)
    operation.erase()
    return None


def _widen_constant(operation: ir.Operation, exact: set[ir.Value]) -> None:
    result = operation.results[0]
    if half_type(result) is None:
        return
    with operation.location, ir.InsertionPoint(operation):
        number = arith.constant(ir.F32Type.get(), ir.FloatAttr(operation.attributes["value"]).value)
    exact.add(number)
    result.replace_all_uses_with(number)
    operation.erase()


def _widen_operation(operation: ir.Operation, exact: set[ir.Value]) -> dict[ir.Value, ir.Type]:
    """The results, now in f32, that may be no numbers of half precision, with the type that they had."""
    halves: dict[ir.Value, ir.Type] = {}
    for result in operation.results:
        half = half_type(result)
        if half is None:
            continue
        result.set_type(ir.F32Type.get())
        if operation.name in KEEPING_HALF and all(
            operand in exact or not isinstance(operand.type, ir.F32Type) for operand in operation.operands
        ):
            exact.add(result)
        else:
            halves[result] = half
    return halves


def _round_operands(operation: ir.Operation, halves: Mapping[ir.Value, ir.Type]) -> None:
    with operation.location, ir.InsertionPoint(operation):
        for number, operand in enumerate(operation.operands):
            if (half := halves.get(operand)) is not None:
                operation.operands[number] = _rounded(operand, half)


def _rounded(value: ir.Value, half: ir.Type) -> ir.Value:
    """Build a number rounded to a type of half precision, in f32."""
    if (constant := scalar_constant(value)) is not None:
        return arith.constant(ir.F32Type.get(), ir.FloatAttr.get(half, constant).value)
    return arith.extf(ir.F32Type.get(), arith.truncf(half, value))
