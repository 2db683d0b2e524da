"""Note which arguments of a program it writes to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.reflection import note_numbers
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import called_function, is_public, symbol_name

from ..problems.reflection import READ_ONLY_KEY, STORAGE_KEY

_IMPORT = "stream.tensor.import"
_PASSES_ON = (_IMPORT, "stream.resource.subview", "stream.tensor.export", "stream.timepoint.await")
"""Operations whose result of an operand's number stands for its memory."""
_READS = (
    *_PASSES_ON,
    "hal.buffer_view.assert",
    "hal.buffer_view.dim",
    "stream.cmd.execute",
    "stream.resource.load",
    "stream.resource.size",
    "util.return",
)
"""Operations that don't write themselves."""
_COPY_SOURCE = 0
"""The operand of `stream.cmd.copy` that it reads."""
_WRITE = 2
"""The bit of `resource_accesses` that stands for writing."""


@register_pass("winograd-note-writes")
class NoteWrites:
    """Note which arguments of a program it writes to, as reflection of its functions.

    IREE 3.13 takes the memory of an argument for a value that is computed from it, where nothing uses the
    argument later. Whoever calls the function may use it. After IREE's phase `stream` the program says what
    each of its commands reads and writes. An argument that is not only read, or used by an operation that
    isn't known here, counts as written; one that is memory for a result by the program's own declaration,
    `iree.abi.output`, is noted as that.

        util.func public @main(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view) {
          %x = stream.tensor.import %arg0
          %y = stream.tensor.import %arg1
          stream.cmd.execute with(%x as %a, %y as %b) {
            stream.cmd.dispatch @matmul { ro %a, rw %b }
      becomes
        util.func public @main(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view)
            attributes {iree.reflection = {winograd.read_only = "0"}} {
    """

    def run(self, module: ir.Operation) -> None:
        functions = {
            symbol_name(view.operation): view.operation
            for view in module.regions[0].blocks[0].operations
            if view.operation.name == "util.func" and view.operation.regions[0].blocks
        }
        public = [each for each in functions.values() if is_public(each)]
        rewrite_each("function", public, lambda function: _note(function, functions))


def _note(function: ir.Operation, functions: Mapping[str, ir.Operation]) -> None:
    arguments = function.regions[0].blocks[0].arguments
    views = [number for number, each in enumerate(arguments) if _is_memory(each)]
    uses = {number: list(_uses(arguments[number], functions)) for number in views}
    storage = [number for number in views if any(map(_stores_results, uses[number]))]
    read = [number for number in views if number not in storage and _only_read(uses[number], functions)]
    note_numbers(function, STORAGE_KEY, storage)
    note_numbers(function, READ_ONLY_KEY, read)


def _uses(value: ir.Value, functions: Mapping[str, ir.Operation]) -> Iterator[ir.OpOperand]:
    """The uses of `value`, and of those that stand for its memory, in all functions that it is passed to."""
    pending, seen = [value], set[ir.Value]()
    while pending:
        each = pending.pop()
        if each in seen:
            continue
        seen.add(each)
        for use in each.uses:
            yield use
            pending += _aliases(use, functions)


def _aliases(use: ir.OpOperand, functions: Mapping[str, ir.Operation]) -> list[ir.Value]:
    """The values that stand for the memory of an operand in what follows."""
    user, operand = use.owner.operation, use.operand_number
    if user.name in _PASSES_ON:
        return [user.results[operand]]
    if user.name == "stream.cmd.execute":
        return [user.regions[0].blocks[0].arguments[operand]]
    if user.name == "util.call" and (function := _callee(user, functions)) is not None:
        # It may return what it is passed.
        return [function.regions[0].blocks[0].arguments[operand], *filter(_is_memory, user.results)]
    return []


def _is_memory(value: ir.Value) -> bool:
    return str(value.type).startswith(("!hal.buffer_view", "!stream.resource<"))


def _callee(call: ir.Operation, functions: Mapping[str, ir.Operation]) -> ir.Operation | None:
    return functions.get(called_function(call))


def _stores_results(use: ir.OpOperand) -> bool:
    user = use.owner.operation
    return user.name == _IMPORT and "consume" in user.attributes


def _only_read(uses: Iterable[ir.OpOperand], functions: Mapping[str, ir.Operation]) -> bool:
    return all(_reads(use, functions) for use in uses)


def _reads(use: ir.OpOperand, functions: Mapping[str, ir.Operation]) -> bool:
    user = use.owner.operation
    operand: int = use.operand_number
    if user.name == "stream.cmd.dispatch":
        return not _writes(user, operand)
    if user.name == "stream.cmd.copy":
        return operand == _COPY_SOURCE
    if user.name == "util.call":
        return _callee(user, functions) is not None
    return user.name in _READS


def _writes(dispatch: ir.Operation, operand: int) -> bool:
    workload, uniforms, *_ = ir.DenseI32ArrayAttr(dispatch.attributes["operandSegmentSizes"])
    access = ir.ArrayAttr(dispatch.attributes["resource_accesses"])[operand - workload - uniforms]
    return bool(ir.IntegerAttr(access).value & _WRITE)
