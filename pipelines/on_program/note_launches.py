"""Note the kernels of a program for CUDA as lists that are launched without IREE's runtime."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.reflection import note_words
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import (
    called_function,
    defining_operation,
    is_public,
    operations_of,
    symbol_name,
    walk,
)

from ..problems.launches import (
    CONSTANTS_FUNCTION,
    LAUNCHES_KEY,
    Command,
    Copy,
    Fill,
    Launch,
    LaunchList,
    Memory,
    Place,
    ResultPlace,
)

_FORMAT = "cuda-nvptx-fb"
_BUFFER = "!hal.buffer"
_BUFFER_VIEW = "!hal.buffer_view"

_WITHOUT_EFFECT = (
    "arith.constant",
    "hal.buffer.assert",
    "hal.buffer_usage",
    "hal.buffer_view.assert",
    "hal.device.allocator",
    "hal.device.queue.dealloca",
    "hal.element_type",
    "hal.encoding_type",
    "hal.fence.await",
    "hal.fence.create",
    "hal.fence.join",
    "hal.memory_type",
    "util.global.load",
    "util.null",
    "util.status.check_ok",
)
"""Operations of a function that do nothing where memory and order are a caller's."""
_OF_COMMANDS = (
    "arith.constant",
    "hal.command_buffer.create",
    "hal.command_buffer.finalize",
    "hal.executable.lookup.function",
    "util.global.load",
    "util.return",
)
"""Operations of a function that records commands which aren't commands."""


class _OtherFormError(Exception):
    """A function isn't a list of launches that is the same in each call."""


@register_pass("winograd-note-launches")
class NoteLaunches:
    """Note the kernels of a program for CUDA as lists that are launched without IREE's runtime.

    IREE's runtime takes about 5 us of its caller's time for each kernel of a call, since it gives CUDA one
    after the other. After IREE's phase `hal` a function of known sizes allocates its results and temporaries,
    and executes a command buffer that was recorded when the program was loaded, maybe behind a copy of a
    constant. What that holds is noted in the function's reflection, for whoever makes a CUDA graph of it
    (`LaunchList`), and a function is added that returns the memory of the program's constants. A function of
    another form has no note.

        util.global private @weights : !hal.buffer
        util.func private @recorded() -> !hal.command_buffer {
          hal.command_buffer.dispatch<%cmd> target(%executable)[%conv] workgroups([%c8, %c1, %c1])
              bindings([(%c0 : index)[%c0, %c64], (%weights : !hal.buffer)[%c0, %c64], ...])
        util.func public @main(%arg0: !hal.buffer_view) -> !hal.buffer_view
      becomes
        util.func public @main(%arg0: !hal.buffer_view) -> !hal.buffer_view
            attributes {iree.reflection = {winograd.launches =
                '{"stages":[[["launch","conv",[8,1,1],[["argument",0,0],["constant",0,0],...]]],...}'}}
        util.func public @__winograd_constants() -> !hal.buffer_view {
          %weights = util.global.load immutable @weights : !hal.buffer
    """

    def run(self, module: ir.Operation) -> None:
        program = _Program.of(module)
        if not program.is_for_cuda:
            return
        rewrite_each("function", program.entries, program.note)
        rewrite_each("program", [module], program.give_constants)


@dataclass
class _Program:
    """A program, of whose `constants` there are as many as were met."""

    functions: Mapping[str, ir.Operation]
    recorders: Mapping[str, str]
    """Of globals with command buffers, the functions that record these."""
    is_for_cuda: bool
    constants: list[str] = field(default_factory=list)
    """The globals of constants, in the order in which they are given."""

    @staticmethod
    def of(module: ir.Operation) -> _Program:
        operations = operations_of(module)
        functions = {symbol_name(each): each for each in operations if each.name == "util.func"}
        executables = [each for each in operations if each.name == "hal.executable"]
        formats = {
            ir.StringAttr(binary.attributes["format"]).value
            for executable in executables
            for binary in operations_of(executable)
            if binary.name == "hal.executable.binary"
        }
        return _Program(functions, dict(_recorders(operations)), formats == {_FORMAT})

    @property
    def entries(self) -> list[ir.Operation]:
        """The functions that users call."""
        return [each for each in self.functions.values() if is_public(each)]

    def note(self, function: ir.Operation) -> None:
        """Note what `function` launches, if it is of the form that IREE gives those of known sizes."""
        try:
            launches = _Function(self).read(function)
        except _OtherFormError:
            return
        note_words(function, LAUNCHES_KEY, [launches.to_json()])

    def give_constants(self, module: ir.Operation) -> None:
        """Add the function that returns the constants' memory, if a list reads some."""
        if not self.constants:
            return
        block = module.regions[0].blocks[0]
        view = ir.Type.parse(_BUFFER_VIEW, module.context)
        with module.location, ir.InsertionPoint(block):
            type_ = ir.TypeAttr.get(ir.FunctionType.get([], [view] * len(self.constants)))
            function = ir.Operation.create(
                "util.func",
                attributes={
                    "function_type": type_,
                    "sym_name": ir.StringAttr.get(CONSTANTS_FUNCTION),
                    "sym_visibility": ir.StringAttr.get("public"),
                    "tied_operands": ir.ArrayAttr.get(
                        [ir.IntegerAttr.get(ir.IndexType.get(), -1)] * len(self.constants)
                    ),
                },
                regions=1,
            )
            body = function.regions[0].blocks.append()
        with module.location, ir.InsertionPoint(body):
            views = [_bytes_of(name) for name in self.constants]
            ir.Operation.create("util.return", operands=views)

    def constant(self, load: ir.Operation) -> Memory:
        """The memory that `load` reads of a global."""
        if "is_immutable" not in load.attributes:
            raise _OtherFormError
        name = ir.FlatSymbolRefAttr(load.attributes["global"]).value
        if name not in self.constants:
            self.constants.append(name)
        return Memory("constant", self.constants.index(name))

    def recorder(self, commands: ir.Value) -> ir.Operation:
        """The function that records the command buffer `commands`."""
        load = defining_operation(commands)
        if load is None or load.name != "util.global.load":
            raise _OtherFormError
        name = self.recorders.get(ir.FlatSymbolRefAttr(load.attributes["global"]).value)
        if name is None:
            raise _OtherFormError
        return self.functions[name]


class _Function:
    """What a function of a program does, as it is read."""

    def __init__(self, program: _Program) -> None:
        self._program = program
        self._places: dict[ir.Value, Place] = {}
        """Where buffers begin."""
        self._allocations: list[int] = []
        self._stages: list[tuple[Command, ...]] = []
        self._results: dict[ir.Value, ResultPlace] = {}

    def read(self, function: ir.Operation) -> LaunchList:
        """What it launches. Raises `_OtherFormError`."""
        blocks = list(function.regions[0].blocks)
        if len(blocks) != 1:
            raise _OtherFormError
        returned: list[ir.Value] = []
        for operation in operations_of(function):
            if operation.name == "util.return":
                returned = list(operation.operands)
            else:
                self._read_operation(operation)
        if not self._stages or not all(result in self._results for result in returned):
            raise _OtherFormError
        results = tuple(self._results[result] for result in returned)
        return LaunchList(tuple(self._stages), tuple(self._allocations), results)

    def _read_operation(self, operation: ir.Operation) -> None:
        match operation.name:
            case "hal.buffer_view.buffer":
                argument = operation.operands[0]
                if defining_operation(argument) is not None:
                    raise _OtherFormError
                memory = Memory("argument", ir.BlockArgument(argument).arg_number)
                self._places[operation.results[0]] = Place(memory, 0)
            case "hal.device.queue.alloca":
                self._places[operation.results[0]] = Place(Memory("allocation", len(self._allocations)), 0)
                self._allocations.append(_number(operation.operands[-1]))
            case "hal.buffer_view.create":
                buffer, offset, _, type_, _, *shape = operation.operands
                self._results[operation.results[0]] = ResultPlace(
                    self._place(buffer, _number(offset)), _element_type(type_), tuple(map(_number, shape))
                )
            case "hal.device.queue.execute.indirect":
                self._stages += self._execute(operation)
            case "hal.device.queue.copy":
                source, source_offset, target, target_offset, length = operation.operands[-5:]
                places = (
                    self._place(source, _number(source_offset)),
                    self._place(target, _number(target_offset)),
                )
                self._stages.append((Copy(*places, _number(length)),))
            case name if name not in _WITHOUT_EFFECT:
                raise _OtherFormError

    def _execute(self, execute: ir.Operation) -> Iterator[tuple[Command, ...]]:
        (commands,) = (each for each in execute.operands if str(each.type) == "!hal.command_buffer")
        bound = [each for each in execute.operands if str(each.type) == _BUFFER]
        numbers = list(execute.operands)[-2 * len(bound) :] if bound else []
        offsets = numbers[: len(bound)]
        slots = [self._place(buffer, _number(offset)) for buffer, offset in zip(bound, offsets, strict=True)]
        stage: list[Command] = []
        for operation in operations_of(self._program.recorder(commands)):
            if operation.name == "hal.command_buffer.execution_barrier":
                if stage:
                    yield tuple(stage)
                stage = []
            elif operation.name not in _OF_COMMANDS:
                stage.append(self._command(operation, slots))
        if stage:
            yield tuple(stage)

    def _command(self, operation: ir.Operation, slots: list[Place]) -> Command:
        operands = list(operation.operands)
        match operation.name:
            case "hal.command_buffer.dispatch":
                return self._launch(operation, slots)
            case "hal.command_buffer.fill_buffer":
                _, target, offset, length, pattern = operands
                width = ir.IntegerType(pattern.type).width // 8
                value = _number(pattern) % (1 << 8 * width)
                return Fill(self._bound(target, offset, slots), _number(length), value, width)
            case "hal.command_buffer.copy_buffer":
                _, source, source_offset, target, target_offset, length = operands
                return Copy(
                    self._bound(source, source_offset, slots),
                    self._bound(target, target_offset, slots),
                    _number(length),
                )
            case _:
                raise _OtherFormError

    def _launch(self, dispatch: ir.Operation, slots: list[Place]) -> Launch:
        (_, _, (kernel,), (x,), (y,), (z,), numbers, buffers, offsets, _) = _segments(dispatch)
        lookup = defining_operation(kernel)
        if lookup is None or lookup.name != "hal.executable.lookup.function":
            raise _OtherFormError
        name = ir.SymbolRefAttr(lookup.attributes["entry_point"]).value[-1]
        places = (self._bound(buffer, offset, slots) for buffer, offset in zip(buffers, offsets, strict=True))
        return Launch(
            str(name),
            (_number(x), _number(y), _number(z)),
            tuple(places),
            tuple(_number(number) % (1 << 32) for number in numbers),
        )

    def _bound(self, buffer: ir.Value, offset: ir.Value, slots: list[Place]) -> Place:
        """The memory that a command names: a slot of the table that it is executed with, or a constant."""
        if str(buffer.type) != _BUFFER:
            slot = slots[_number(buffer)]
            return Place(slot.memory, slot.offset + _number(offset))
        return self._place(buffer, _number(offset))

    def _place(self, buffer: ir.Value, offset: int) -> Place:
        if buffer not in self._places:
            load = defining_operation(buffer)
            if load is None or load.name != "util.global.load":
                raise _OtherFormError
            self._places[buffer] = Place(self._program.constant(load), 0)
        place = self._places[buffer]
        return Place(place.memory, place.offset + offset)


def _recorders(operations: list[ir.Operation]) -> Iterator[tuple[str, str]]:
    """The globals that hold what a function of the program returns, and the names of these functions."""
    for initializer in operations:
        if initializer.name != "util.initializer":
            continue
        for store in walk(initializer):
            if store.name != "util.global.store":
                continue
            call = defining_operation(store.operands[0])
            if call is not None and call.name == "util.call":
                yield ir.FlatSymbolRefAttr(store.attributes["global"]).value, called_function(call)


def _segments(operation: ir.Operation) -> list[list[ir.Value]]:
    """The operands of an operation with groups of them, by group."""
    remaining = iter(operation.operands)
    sizes = ir.DenseI32ArrayAttr(operation.attributes["operandSegmentSizes"])
    return [[next(remaining) for _ in range(size)] for size in sizes]


def _number(value: ir.Value) -> int:
    """What `value` is in each call. Raises `_OtherFormError`."""
    operation = defining_operation(value)
    if operation is None or operation.name != "arith.constant":
        raise _OtherFormError
    return int(ir.IntegerAttr(operation.attributes["value"]).value)


def _element_type(value: ir.Value) -> str:
    """MLIR's name of a type that is given as its number."""
    operation = defining_operation(value)
    if operation is None or operation.name != "hal.element_type":
        raise _OtherFormError
    return str(ir.TypeAttr(operation.attributes["type"]).value)


def _bytes_of(constant: str) -> ir.Value:
    """A buffer view of all of the memory of a global, of bytes."""
    index, number = ir.IndexType.get(), ir.IntegerType.get_signless(32)
    byte = ir.TypeAttr.get(ir.IntegerType.get_signless(8))
    buffer = ir.Operation.create(
        "util.global.load",
        [ir.Type.parse(_BUFFER)],
        attributes={"global": ir.FlatSymbolRefAttr.get(constant), "is_immutable": ir.UnitAttr.get()},
    ).result
    length = ir.Operation.create("hal.buffer.length", [index], [buffer]).result
    begin = ir.Operation.create(
        "arith.constant", [index], attributes={"value": ir.IntegerAttr.get(index, 0)}
    ).result
    type_ = ir.Operation.create("hal.element_type", [number], attributes={"type": byte}).result
    encoding = ir.Operation.create("hal.encoding_type", [number]).result
    view: ir.Value = ir.Operation.create(
        "hal.buffer_view.create",
        [ir.Type.parse(_BUFFER_VIEW)],
        [buffer, begin, length, type_, encoding, length],
    ).result
    return view
