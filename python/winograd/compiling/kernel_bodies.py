"""Kernels without their bodies: what IREE has of them while it makes commands of a program.

Until it translates kernels, at the end of its phase `executable-configurations`, IREE looks at what one is
called with, not at what it does, but it verifies and folds all that is in the program after each of its
passes. That took longer than to compile the kernels.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from iree.winograd.dialect.bindings import func, ir
from iree.winograd.passes.match.navigation import (
    KERNEL,
    defining_operation,
    kernel_functions,
    operations_of,
    symbol_name,
)
from iree.winograd.passes.match.values.kernels_of_constants import kernels_of_constants


class KernelBodies:
    """Bodies of `kernels`, names of executables, while they are apart from a program.

    What says where a kernel's buffers lie stays, as IREE may move them. The rest is called instead.

        %x = stream.binding.subspan %arg0[%c0] : !stream.binding -> memref<6272xf32>
        %y = stream.binding.subspan %arg1[%c0] : !stream.binding -> memref<4608xf32>
        func.call @kernel.body(%x, %y) : (memref<6272xf32>, memref<4608xf32>) -> ()
    """

    def __init__(self, kernels: Collection[str]) -> None:
        self._kernels = kernels
        self._module: ir.Module | None = None

    def take_unless_constant(self, program: ir.Operation) -> None:
        """Take the bodies but those of kernels that IREE may run to evaluate constants."""
        self._take(program, set(self._kernels) - kernels_of_constants(program))

    def take_all(self, program: ir.Operation) -> None:
        """Take the bodies that are left."""
        self._take(program, self._kernels)

    def put_back(self, program: ir.Operation) -> None:
        """Put the bodies to where they are called in `program`, however often."""
        bodies = self._by_name()
        for function in kernel_functions(program):
            for call in [each for each in operations_of(function) if each.name == "func.call"]:
                if _callee(call) in bodies:
                    _inline(bodies[_callee(call)].clone(ip=False), call)

    def _take(self, program: ir.Operation, kernels: Collection[str]) -> None:
        if self._module is None:
            self._module = ir.Module.create(program.location)
        taken = self._by_name()
        for executable in operations_of(program):
            if executable.name == KERNEL and symbol_name(executable) in kernels:
                for function in kernel_functions(executable):
                    if _body_name(function) not in taken:
                        _take(function, self._module)

    def _by_name(self) -> Mapping[str, ir.Operation]:
        """The bodies that were taken, by the names that calls of them have."""
        assert self._module is not None, "bodies are taken first"
        return {symbol_name(each): each for each in operations_of(self._module.operation)}


def _body_name(function: ir.Operation) -> str:
    return f"{symbol_name(function)}.body"


def _take(function: ir.Operation, bodies: ir.Module) -> None:
    *operations, terminator = operations_of(function)
    staying = _needed_by_bindings(operations)
    defined = (result for each in operations if each in staying for result in each.results)
    values = [*function.regions[0].blocks[0].arguments, *defined]
    used = [value for value in values if any(use.owner.operation not in staying for use in value.uses)]
    name = _body_name(function)
    with function.location:
        type_ = ir.FunctionType.get([value.type for value in used], [])
        with ir.InsertionPoint(function):
            func.FuncOp(name, type_, visibility="private")
        with ir.InsertionPoint(bodies.body):
            body = func.FuncOp(name, type_).add_entry_block()
        with ir.InsertionPoint(terminator):
            call = func.CallOp([], name, used).operation
    for operation in operations:
        if operation not in staying:
            body.append(operation)
    for value, argument in zip(used, body.arguments, strict=True):
        value.replace_all_uses_except(argument, [*staying, call])


def _needed_by_bindings(operations: Sequence[ir.Operation]) -> set[ir.Operation]:
    """Those that bind buffers, and what these read."""
    needed: set[ir.Operation] = set()
    for operation in reversed(operations):
        if operation.name.startswith("stream.") or operation in needed:
            needed.add(operation)
            needed.update(filter(None, map(defining_operation, operation.operands)))
    return needed


def _callee(call: ir.Operation) -> str:
    return str(ir.FlatSymbolRefAttr(call.attributes["callee"]).value)


def _inline(body: ir.Operation, call: ir.Operation) -> None:
    """Replace `call` by what is in `body`, which is gone then, and erase the declaration."""
    block = body.regions[0].blocks[0]
    for argument, operand in zip(block.arguments, call.operands, strict=True):
        argument.replace_all_uses_with(operand)
    for operation in operations_of(body):
        operation.move_before(call)
    symbols = ir.SymbolTable(call.parent.operation.parent.operation)
    declaration = symbols[_callee(call)]
    call.erase()
    symbols.erase(declaration)
    body.erase()
