"""Note the types of a program's functions where IREE doesn't."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.reflection import note_words
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import (
    KERNEL,
    called_function,
    defining_operation,
    is_public,
    symbol_name,
    walk,
)

from ..problems.reflection import DECLARATION_KEY

_VIEW = "!hal.buffer_view"


@register_pass("winograd-note-signature")
class NoteSignature:
    """Note the types of a program's functions where IREE doesn't, as reflection of theirs.

    IREE keeps the types of functions on tensors, and none of those on the types of torch-mlir, which
    iree-turbine exports. A function that waits for another one on fences has its types. Nothing is noted of a
    program without kernels, and of a function of which some type isn't known.

        util.func public @main(%arg0: !hal.buffer_view) -> !hal.buffer_view {
          %x = hal.tensor.import %arg0 : !hal.buffer_view -> tensor<?x64xf32>{%n}
          ...
          %v = hal.tensor.export %r : tensor<?x8xf32>{%n} -> !hal.buffer_view
          util.return %v
      becomes
        util.func public @main(%arg0: !hal.buffer_view) -> !hal.buffer_view
            attributes {iree.reflection = {iree.abi.declaration =
                "sync func @main(%input0: tensor<?x64xf32>) -> (%output0: tensor<?x8xf32>)"}} {
    """

    def run(self, module: ir.Operation) -> None:
        operations = list(walk(module))
        if not any(operation.name == KERNEL for operation in operations):
            return
        functions = {
            symbol_name(each): each
            for each in operations
            if each.name == "util.func" and each.regions[0].blocks
        }
        public = [each for each in functions.values() if is_public(each) and _is_called(each)]
        rewrite_each("function", public, lambda function: _note(function, functions))


def _is_called(function: ir.Operation) -> bool:
    """Whether callers hand arrays over, and nothing is said of their types."""
    reflection = function.attributes.get("iree.reflection", ())
    if any(named.name == DECLARATION_KEY for named in reflection):
        return False
    type_ = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    return all(str(each) == _VIEW for each in (*type_.inputs, *type_.results))


def _note(function: ir.Operation, functions: Mapping[str, ir.Operation]) -> None:
    inputs = [_imported(each, functions) for each in function.regions[0].blocks[0].arguments]
    outputs = [_exported(each, functions) for each in _returned(function)]
    if None in (*inputs, *outputs):
        return
    declaration = f"sync func @{symbol_name(function)}({_side('input', inputs)})"
    note_words(function, DECLARATION_KEY, [f"{declaration} -> ({_side('output', outputs)})"])


def _side(name: str, types: Sequence[ir.Type | None]) -> str:
    return ", ".join(f"%{name}{index}: {type_}" for index, type_ in enumerate(types))


def _imported(view: ir.Value, functions: Mapping[str, ir.Operation]) -> ir.Type | None:
    """The type of the tensor that is made of an argument, here or in a function that it is passed to."""
    passed = (_argument_of_callee(use, functions) for use in view.uses)
    for value in (view, *(each for each in passed if each is not None)):
        for use in value.uses:
            user = use.owner.operation
            if user.name == "hal.tensor.import":
                return ir.TypeAttr(user.attributes["target_encoding"]).value
    return None


def _argument_of_callee(use: ir.OpOperand, functions: Mapping[str, ir.Operation]) -> ir.Value | None:
    call = use.owner.operation
    callee = functions.get(called_function(call)) if call.name == "util.call" else None
    return None if callee is None else callee.regions[0].blocks[0].arguments[use.operand_number]


def _exported(view: ir.Value | None, functions: Mapping[str, ir.Operation]) -> ir.Type | None:
    """The type of the tensor that a result is made of, here or in a function that returns it."""
    operation = None if view is None else defining_operation(view)
    if operation is not None and operation.name == "util.call":
        callee = functions.get(called_function(operation))
        view = None if callee is None else _returned(callee)[ir.OpResult(view).result_number]
        operation = None if view is None else defining_operation(view)
    if operation is None or operation.name != "hal.tensor.export":
        return None
    return ir.TypeAttr(operation.attributes["source_encoding"]).value


def _returned(function: ir.Operation) -> list[ir.Value | None]:
    """What a function returns, as far as it always returns the same."""
    blocks = list(function.regions[0].blocks)
    *_, last = blocks[-1].operations
    return [value if len(blocks) == 1 else None for value in last.operation.operands]
