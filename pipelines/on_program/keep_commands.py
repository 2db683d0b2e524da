"""Keep the commands of a program of any size for the next call on arguments of the same sizes, on CPUs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iree.winograd.dialect.bindings import arith, ir, scf
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import defining_operation, operations_of, symbol_name, walk

from ..problems.executable_target import GPU_FORMATS, binary_formats

SIZE_OF_ARGUMENT = "hal.buffer_view.dim"
"""The operation by which a program asks for a size of an argument."""

_CREATE = "hal.command_buffer.create"
_EXECUTE = "hal.device.queue.execute"
_RECORDING = "hal.command_buffer."
_FUNCTION = "util.func"
_LOAD, _STORE, _GLOBAL = "util.global.load", "util.global.store", "util.global"

_BUFFER, _COMMANDS, _EXECUTABLE = "!hal.buffer", "!hal.command_buffer", "!hal.executable"
_RECORDED_TYPES = (_BUFFER, _COMMANDS, _EXECUTABLE)
"""What is recorded beside numbers."""
_WITHOUT_EFFECT = ("hal.executable.lookup.function", "math.ctlz", "util.align")
"""Operations beside those of `arith` that give the same in each call for the same operands."""
_KEPT = 0
"""Modes of a command buffer that is executed more than once."""


@register_pass("winograd-keep-commands")
class KeepCommands:
    """Keep the commands of a program of any size for the next call on arguments of the same sizes, on CPUs.

    IREE 3.13 records the commands of a program once where sizes are known. Where they are not it does so in
    each call, and computes all numbers that are recorded: for small images a sixth of the call. Most calls
    are on arguments of the sizes of the one before. So what was recorded is kept, with memory that is bound
    when it is executed, until other sizes come; after IREE's phase `hal`, in functions where nothing but
    sizes of arguments decides what is recorded.

        %cmd = hal.command_buffer.create device(%device) mode(OneShot) ...
        hal.command_buffer.dispatch<%cmd> ... workgroups([%of_size, ...]) bindings([(%buffer)[...]])
        hal.command_buffer.finalize<%cmd>
        hal.device.queue.execute<%device> ... commands(%cmd)
      becomes
        %last = util.global.load @commands_size_0
        %same = arith.cmpi eq, %size, %last
        %cmd = scf.if %same -> !hal.command_buffer {
          %kept = util.global.load @commands
        } else {
          %new = hal.command_buffer.create device(%device) mode("None") ... bindings(%c1)
          hal.command_buffer.dispatch<%new> ... workgroups([%of_size, ...]) bindings([(%c0)[...]])
          hal.command_buffer.finalize<%new>
          util.global.store %new, @commands
          util.global.store %size, @commands_size_0
        }
        hal.device.queue.execute.indirect<%device> ... commands(%cmd) bindings([(%buffer)[...]])
    """

    def run(self, module: ir.Operation) -> None:
        formats = binary_formats(module)
        if not formats or not formats.isdisjoint(GPU_FORMATS):
            return
        recordings = [
            recording for each in walk(module) if each.name == _CREATE and (recording := _recording(each))
        ]
        names = _Names(module)
        rewrite_each(
            "command buffer",
            recordings,
            lambda recording: _keep(module, names.next(), recording),
            operation_of=lambda recording: recording.create,
        )


@dataclass(frozen=True)
class _Recording:
    """A command buffer that is recorded and executed once, by operations of one block."""

    create: ir.Operation
    commands: Sequence[ir.Operation]
    """In order, the last one finishes it."""
    execute: ir.Operation
    sizes: Sequence[ir.Value]
    """Sizes of arguments, which decide what is recorded."""
    bound: Sequence[ir.Value]
    """The buffers that aren't the same in each call."""


class _Names:
    """Names of globals that no symbol of a module has."""

    def __init__(self, module: ir.Operation) -> None:
        self._taken = {symbol_name(each) for each in operations_of(module) if "sym_name" in each.attributes}
        self._number = 0

    def next(self) -> str:
        while (name := f"__winograd_commands_{self._number}") in self._taken:
            self._number += 1
        self._taken.add(name)
        return name


def _recording(create: ir.Operation) -> _Recording | None:
    """What is recorded into a command buffer, unless IREE keeps it, or not just sizes decide of it.

    What initializes a program is executed once. IREE also takes numbers that only initializers store for
    those that globals begin with.
    """
    if create.parent is None or create.parent.operation.name != _FUNCTION:
        return None
    users = {use.owner.operation for use in create.results[0].uses}
    executes = [user for user in users if user.name == _EXECUTE]
    if len(executes) != 1 or any(user.block != create.operation.block for user in users):
        return None
    commands = [
        each for each in _operations_in(create.operation.block) if each in users and each.name != _EXECUTE
    ]
    if not all(each.name.startswith(_RECORDING) and not each.results for each in commands):
        return None
    recorded = dict.fromkeys(operand for each in commands for operand in each.operands)
    numbers = [each for each in recorded if str(each.type) not in _RECORDED_TYPES]
    sizes = _sizes_of(numbers)
    if sizes is None:
        return None
    bound = [each for each in recorded if str(each.type) == _BUFFER and not _is_constant(each)]
    return _Recording(create, commands, executes[0], sizes, bound)


def _operations_in(block: ir.Block) -> list[ir.Operation]:
    return [view.operation for view in block.operations]


def _is_constant(buffer: ir.Value) -> bool:
    load = defining_operation(buffer)
    return load is not None and load.name == _LOAD and "is_immutable" in load.attributes


def _sizes_of(numbers: Sequence[ir.Value]) -> list[ir.Value] | None:
    """The sizes of arguments that these are computed of; None where it takes something else."""
    sizes: dict[ir.Value, None] = {}
    seen = set(numbers)
    left = list(numbers)
    while left:
        value = left.pop()
        operation = defining_operation(value)
        if operation is None:
            return None
        if operation.name == SIZE_OF_ARGUMENT:
            sizes[value] = None
        elif _has_no_effect(operation):
            needed = [each for each in operation.operands if each not in seen]
            seen.update(needed)
            left += [each for each in needed if str(each.type) != _EXECUTABLE]
        else:
            return None
    return list(sizes)


def _has_no_effect(operation: ir.Operation) -> bool:
    return operation.name.startswith("arith.") or operation.name in _WITHOUT_EFFECT


def _keep(module: ir.Operation, name: str, recording: _Recording) -> None:
    create, execute = recording.create, recording.execute
    index, truth = ir.IndexType.get(module.context), ir.IntegerType.get_signless(1, module.context)
    commands_type = create.results[0].type
    size_names = [f"{name}_size_{number}" for number in range(len(recording.sizes))]
    there = f"{name}_there"
    with module.context, create.location:
        with ir.InsertionPoint.at_block_begin(module.regions[0].blocks[0]):
            _declare(name, commands_type)
            # IREE takes what a global without an initial value is always set to for that.
            _declare(there, truth, ir.IntegerAttr.get(truth, 0))
            for each in size_names:
                _declare(each, index)
        # Numbers of commands may be computed after these were created, and be for others as well.
        with ir.InsertionPoint(execute):
            same = _loaded(there, truth)
            for size_name, size in zip(size_names, recording.sizes, strict=True):
                last = _loaded(size_name, index)
                same = arith.andi(same, arith.cmpi(arith.CmpIPredicate.eq, size, last))
            choice = scf.IfOp(same, [commands_type], has_else=True)
        with ir.InsertionPoint(choice.then_block):
            scf.yield_([_loaded(name, commands_type)])
        with ir.InsertionPoint(choice.else_block):
            slots = {buffer: arith.constant(index, slot) for slot, buffer in enumerate(recording.bound)}
            own = _created(create, arith.constant(index, len(slots)))
            for size_name, size in zip(size_names, recording.sizes, strict=True):
                _store(size_name, size)
            _store(name, own)
            _store(there, arith.constant(truth, 1))
            end = scf.YieldOp([own]).operation
        _record(recording, slots, own, end)
        with ir.InsertionPoint(execute):
            _execute(execute, choice.results[0], recording.bound)
    execute.erase()
    create.erase()
    _sink(choice)


def _declare(name: str, type_: ir.Type, initial: ir.Attribute | None = None) -> None:
    attributes: dict[str, ir.Attribute] = {
        "sym_name": ir.StringAttr.get(name),
        "sym_visibility": ir.StringAttr.get("private"),
        "type": ir.TypeAttr.get(type_),
        "is_mutable": ir.UnitAttr.get(),
    }
    if initial is not None:
        attributes["initial_value"] = initial
    ir.Operation.create(_GLOBAL, attributes=attributes)


def _loaded(name: str, type_: ir.Type) -> ir.Value:
    return ir.Operation.create(_LOAD, [type_], attributes={"global": ir.FlatSymbolRefAttr.get(name)}).result


def _store(name: str, value: ir.Value) -> None:
    ir.Operation.create(_STORE, [], [value], {"global": ir.FlatSymbolRefAttr.get(name)})


def _created(create: ir.Operation, slots: ir.Value) -> ir.Value:
    """Builds a command buffer as `create` does, but that it is kept, with so many `slots` for memory."""
    attributes = {name: create.attributes[name] for name in create.attributes}
    modes = ir.IntegerAttr(attributes["modes"])
    attributes["modes"] = ir.IntegerAttr.get(modes.type, _KEPT)
    return ir.Operation.create(
        _CREATE, [create.results[0].type], [*create.operands, slots], attributes
    ).result


def _record(recording: _Recording, slots: dict[ir.Value, ir.Value], own: ir.Value, end: ir.Operation) -> None:
    """Have commands be recorded into `own`, before what keeps it, with `slots` in place of buffers."""
    first_store = next(each for each in _operations_in(end.block) if each.name == _STORE)
    for command in recording.commands:
        command.move_before(first_store)
        for number, operand in enumerate(command.operands):
            if operand in slots:
                command.operands[number] = slots[operand]
            elif operand == recording.create.results[0]:
                command.operands[number] = own


def _execute(execute: ir.Operation, commands: ir.Value, bound: Sequence[ir.Value]) -> None:
    """Builds the execution of `commands` on these buffers as a whole."""
    index = ir.IndexType.get()
    device, affinity, wait, signal, _ = execute.operands
    begin = arith.constant(index, 0)
    lengths = [ir.Operation.create("hal.buffer.length", [index], [each]).result for each in bound]
    operands = [device, affinity, wait, signal, commands, *bound, *([begin] * len(bound)), *lengths]
    attributes = {"flags": execute.attributes["flags"]}
    ir.Operation.create(f"{_EXECUTE}.indirect", [], operands, attributes)


def _sink(choice: scf.IfOp) -> None:
    """Compute what only commands need where they are recorded."""
    function = choice.operation.parent
    block = choice.else_block
    inside = set(_operations_in(block))
    outside = [operation for each in function.regions[0].blocks for operation in _operations_in(each)]
    for operation in reversed(outside):
        if not _has_no_effect(operation):
            continue
        users = {use.owner.operation for result in operation.results for use in result.uses}
        if users and users <= inside:
            operation.move_before(block.operations[0].operation)
            inside.add(operation)
