"""Note the kernels of a program for CUDA as lists that are launched without IREE's runtime."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.reflection import note_words
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import (
    called_function,
    defining_operation,
    is_public,
    operand_groups,
    operations_of,
    symbol_name,
    walk,
)

from ..emission.public_function import BUFFER_VIEW, public_function, return_from
from ..problems.executable_target import CUDA_FORMAT, binary_formats
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
from ..problems.open_launches import CONSTANT, OPEN_LAUNCHES_KEY, OPERATIONS, SIZE, OpenLaunches, Step

_BUFFER = "!hal.buffer"
_COMMANDS = "!hal.command_buffer"

_COMPARISON, _ASSUMPTION, _DIMENSION = "arith.cmpi", "util.assume.int", "hal.buffer_view.dim"
_COMPARED = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
"""What the predicates of comparisons ask, in the order of their numbers."""
_INDEX_BITS = 64

_WITHOUT_EFFECT = (
    "arith.constant",
    "hal.buffer.assert",
    "hal.buffer_usage",
    "hal.buffer_view.assert",
    "hal.command_buffer.create",
    "hal.command_buffer.finalize",
    "hal.device.allocator",
    "hal.device.queue.dealloca",
    "hal.element_type",
    "hal.encoding_type",
    "hal.executable.lookup.function",
    "hal.fence.await",
    "hal.fence.create",
    "hal.fence.join",
    "hal.memory_type",
    "util.global.load",
    "util.null",
    "util.status.check_ok",
    # Of these only what numbers need is read.
    _COMPARISON,
    _ASSUMPTION,
    _DIMENSION,
    *OPERATIONS,
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
    """A function isn't a list of launches that is the same in each call on arguments of the same shapes."""


@register_pass("winograd-note-launches")
class NoteLaunches:
    """Note the kernels of a program for CUDA as lists that are launched without IREE's runtime.

    IREE's runtime takes about 5 us of its caller's time for each kernel of a call, since it gives CUDA one
    after the other. After IREE's phase `hal` a function of known sizes allocates its results and temporaries,
    and executes a command buffer that was recorded when the program was loaded, maybe behind a copy of a
    constant. One of sizes that are known only in a call computes what it needs of them, records a command
    buffer and executes that. What these hold, and what the function asserts of sizes, is noted in its
    reflection, for whoever makes a CUDA graph of it (`LaunchList`, and `OpenLaunches` with the arithmetic),
    and a function is added that returns the memory of the program's constants. A function of another form has
    no note.

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
        return _Program(functions, dict(_recorders(operations)), binary_formats(module) == {CUDA_FORMAT})

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
        if launches.is_open:
            note_words(function, OPEN_LAUNCHES_KEY, [launches.to_json()])
        elif not launches.asserted:
            note_words(function, LAUNCHES_KEY, [launches.at(()).to_json()])

    def give_constants(self, module: ir.Operation) -> None:
        """Add the function that returns the constants' memory, if a list reads some."""
        if not self.constants:
            return
        with module.context, module.location:
            views = [ir.Type.parse(BUFFER_VIEW)] * len(self.constants)
            body = public_function(module, CONSTANTS_FUNCTION, [], views)
            with ir.InsertionPoint(body):
                return_from([_bytes_of(name) for name in self.constants])

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
        self._numbers = _Numbers()
        self._places: dict[ir.Value, Place] = {}
        """Where buffers begin."""
        self._recorded: dict[ir.Value, list[ir.Operation]] = {}
        """What is recorded in a call, by the command buffer that it is recorded in."""
        self._allocations: list[int] = []
        self._stages: list[tuple[Command, ...]] = []
        self._results: dict[ir.Value, ResultPlace] = {}
        self._asserted: list[int] = []

    def read(self, function: ir.Operation) -> OpenLaunches:
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
        launches = LaunchList(tuple(self._stages), tuple(self._allocations), results)
        return OpenLaunches(tuple(self._numbers.steps), launches, tuple(dict.fromkeys(self._asserted)))

    def _read_operation(self, operation: ir.Operation) -> None:
        number = self._numbers.number
        match operation.name:
            case "cf.assert":
                self._asserted.append(number(operation.operands[0]))
            case "hal.buffer_view.buffer":
                memory = Memory("argument", _argument_number(operation.operands[0]))
                self._places[operation.results[0]] = self._begin(memory)
            case "hal.device.queue.alloca":
                memory = Memory("allocation", len(self._allocations))
                self._places[operation.results[0]] = self._begin(memory)
                self._allocations.append(number(operation.operands[-1]))
            case "hal.buffer_view.create":
                buffer, offset, _, type_, _, *shape = operation.operands
                self._results[operation.results[0]] = ResultPlace(
                    self._place(buffer, offset), _element_type(type_), tuple(map(number, shape))
                )
            case "hal.device.queue.execute.indirect":
                self._stages += self._execute(operation)
            case "hal.device.queue.execute":
                for commands in operation.operands:
                    if str(commands.type) == _COMMANDS:
                        self._stages += self._commands(self._recorded.pop(commands, []), [])
            case "hal.device.queue.copy":
                source, source_offset, target, target_offset, length = operation.operands[-5:]
                places = self._place(source, source_offset), self._place(target, target_offset)
                self._stages.append((Copy(*places, number(length)),))
            case name if name not in _WITHOUT_EFFECT:
                if not name.startswith("hal.command_buffer."):
                    raise _OtherFormError
                self._recorded.setdefault(operation.operands[0], []).append(operation)

    def _execute(self, execute: ir.Operation) -> Iterator[tuple[Command, ...]]:
        (commands,) = (each for each in execute.operands if str(each.type) == _COMMANDS)
        bound = [each for each in execute.operands if str(each.type) == _BUFFER]
        numbers = list(execute.operands)[-2 * len(bound) :] if bound else []
        offsets = numbers[: len(bound)]
        slots = [self._place(buffer, offset) for buffer, offset in zip(bound, offsets, strict=True)]
        return self._commands(operations_of(self._program.recorder(commands)), slots)

    def _commands(
        self, operations: Sequence[ir.Operation], slots: list[Place]
    ) -> Iterator[tuple[Command, ...]]:
        """The stages of what is recorded by `operations`, with a table of `slots` for memory."""
        stage: list[Command] = []
        for operation in operations:
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
        number = self._numbers.number
        match operation.name:
            case "hal.command_buffer.dispatch":
                return self._launch(operation, slots)
            case "hal.command_buffer.fill_buffer":
                _, target, offset, length, pattern = operands
                width = ir.IntegerType(pattern.type).width // 8
                return Fill(self._bound(target, offset, slots), number(length), number(pattern), width)
            case "hal.command_buffer.copy_buffer":
                _, source, source_offset, target, target_offset, length = operands
                return Copy(
                    self._bound(source, source_offset, slots),
                    self._bound(target, target_offset, slots),
                    number(length),
                )
            case _:
                raise _OtherFormError

    def _launch(self, dispatch: ir.Operation, slots: list[Place]) -> Launch:
        (_, _, (kernel,), (x,), (y,), (z,), numbers, buffers, offsets, _) = operand_groups(dispatch)
        lookup = defining_operation(kernel)
        if lookup is None or lookup.name != "hal.executable.lookup.function":
            raise _OtherFormError
        name = ir.SymbolRefAttr(lookup.attributes["entry_point"]).value[-1]
        places = (self._bound(buffer, offset, slots) for buffer, offset in zip(buffers, offsets, strict=True))
        number = self._numbers.number
        return Launch(
            str(name), (number(x), number(y), number(z)), tuple(places), tuple(map(number, numbers))
        )

    def _bound(self, buffer: ir.Value, offset: ir.Value, slots: list[Place]) -> Place:
        """The memory that a command names: a slot of the table that it is executed with, or a buffer."""
        if str(buffer.type) != _BUFFER:
            return self._behind(slots[_constant(buffer)], offset)
        return self._place(buffer, offset)

    def _place(self, buffer: ir.Value, offset: ir.Value) -> Place:
        if buffer not in self._places:
            load = defining_operation(buffer)
            if load is None or load.name != "util.global.load":
                raise _OtherFormError
            self._places[buffer] = self._begin(self._program.constant(load))
        return self._behind(self._places[buffer], offset)

    def _begin(self, memory: Memory) -> Place:
        return Place(memory, self._numbers.constant(0))

    def _behind(self, place: Place, offset: ir.Value) -> Place:
        return Place(place.memory, self._numbers.sum(place.offset, self._numbers.number(offset)))


class _Numbers:
    """The `steps` that compute the numbers of a function, each once."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._found: dict[Step, int] = {}
        self._of_values: dict[ir.Value, int] = {}

    def number(self, value: ir.Value) -> int:
        """The step that computes `value`. Raises `_OtherFormError` where none does."""
        if value not in self._of_values:
            self._of_values[value] = self._read(value)
        return self._of_values[value]

    def constant(self, value: int, bits: int = _INDEX_BITS) -> int:
        """The step that is `value`."""
        return self._add(Step(CONSTANT, (value,), bits))

    def sum(self, first: int, second: int) -> int:
        """The step that adds these."""
        zero = self.constant(0)
        if first == zero:
            return second
        return first if second == zero else self._add(Step("arith.addi", (first, second), _INDEX_BITS))

    def _add(self, step: Step) -> int:
        if step not in self._found:
            self._found[step] = len(self.steps)
            self.steps.append(step)
        return self._found[step]

    def _read(self, value: ir.Value) -> int:
        operation = defining_operation(value)
        if operation is None:
            raise _OtherFormError
        bits = ir.IntegerType(value.type).width if isinstance(value.type, ir.IntegerType) else _INDEX_BITS
        name = operation.name
        match name:
            case "arith.constant":
                return self.constant(_constant(value), bits)
            case "hal.buffer_view.dim":
                dimension = ir.IntegerAttr(operation.attributes["index"]).value
                return self._add(Step(SIZE, (_argument_number(operation.operands[0]), dimension), bits))
            case "util.assume.int":
                return self.number(operation.operands[ir.OpResult(value).result_number])
            case "arith.cmpi":
                name = f"{name}:{_COMPARED[ir.IntegerAttr(operation.attributes['predicate']).value]}"
        if name not in OPERATIONS:
            raise _OtherFormError
        return self._add(Step(name, tuple(map(self.number, operation.operands)), bits))


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


def _argument_number(view: ir.Value) -> int:
    """Which argument of the function `view` is. Raises `_OtherFormError` where it is none."""
    if defining_operation(view) is not None:
        raise _OtherFormError
    return int(ir.BlockArgument(view).arg_number)


def _constant(value: ir.Value) -> int:
    """What `value` is in each call. Raises `_OtherFormError`."""
    operation = defining_operation(value)
    if operation is None or operation.name != "arith.constant":
        raise _OtherFormError
    attribute = operation.attributes["value"]
    if not isinstance(attribute, (ir.IntegerAttr, ir.BoolAttr)):
        raise _OtherFormError
    return int(attribute.value)


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
        [ir.Type.parse(BUFFER_VIEW)],
        [buffer, begin, length, type_, encoding, length],
    ).result
    return view
