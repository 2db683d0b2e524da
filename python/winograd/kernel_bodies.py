"""Kernels without their bodies: what IREE has of them while it makes commands of a program.

Until its phase `stream` is over, IREE looks at what a kernel is called with, not at what it does, but it
verifies and folds all that is in the program after each of its passes. That took longer than to compile
the kernels.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from iree.winograd.dialect.bindings import func, ir
from iree.winograd.passes.match.navigation import KERNEL, defining_operation, symbol_name


@dataclass(frozen=True)
class KernelBodies:
    """Bodies of kernels as functions of a module of their own, by the names that calls of them have."""

    module: ir.Module

    def put_back(self, program: ir.Operation) -> None:
        """Put the bodies to where they are called in `program`, however often."""
        bodies = {symbol_name(each): each for each in _operations(self.module.operation)}
        for executable in _operations(program):
            for function in _functions(executable):
                for call in [each for each in _operations(function) if each.name == "func.call"]:
                    if _callee(call) in bodies:
                        _inline(bodies[_callee(call)].clone(ip=False), call)


def take_bodies(program: ir.Operation, kernels: Collection[str]) -> KernelBodies:
    """Take the bodies of `kernels`, names of executables, out of `program`.

    What says where a kernel's buffers lie stays, as IREE may move them. The rest is called instead.

        %x = stream.binding.subspan %arg0[%c0] : !stream.binding -> memref<6272xf32>
        %y = stream.binding.subspan %arg1[%c0] : !stream.binding -> memref<4608xf32>
        func.call @kernel.body(%x, %y) : (memref<6272xf32>, memref<4608xf32>) -> ()
    """
    bodies = ir.Module.create(program.location)
    for executable in _operations(program):
        if executable.name == KERNEL and symbol_name(executable) in kernels:
            for function in _functions(executable):
                _take(function, bodies)
    return KernelBodies(bodies)


def _functions(executable: ir.Operation) -> list[ir.Operation]:
    """Those with a body in `executable`; none where that isn't one."""
    if executable.name != KERNEL:
        return []
    modules = [each for each in _operations(executable) if each.name == "builtin.module"]
    functions = [each for module in modules for each in _operations(module) if each.name == "func.func"]
    return [function for function in functions if function.regions[0].blocks]


def _operations(parent: ir.Operation) -> list[ir.Operation]:
    """Those in the only block of `parent`."""
    return [view.operation for view in parent.regions[0].blocks[0].operations]


def _take(function: ir.Operation, bodies: ir.Module) -> None:
    *operations, terminator = _operations(function)
    staying = _needed_by_bindings(operations)
    defined = (result for each in operations if each in staying for result in each.results)
    values = [*function.regions[0].blocks[0].arguments, *defined]
    used = [value for value in values if any(use.owner.operation not in staying for use in value.uses)]
    name = f"{symbol_name(function)}.body"
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
        if operation.name == "stream.binding.subspan" or operation in needed:
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
    for operation in _operations(body):
        operation.move_before(call)
    module = call.parent.operation.parent.operation
    (declaration,) = (each for each in _operations(module) if symbol_name(each) == _callee(call))
    call.erase()
    declaration.erase()
    body.erase()
