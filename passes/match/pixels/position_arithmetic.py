"""Tensors of one dimension whose elements are computed of where they are, and of a program's integers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.elementwise import Elementwise, match_elementwise
from iree.winograd.passes.match.epilogues.finishing import is_of_positions
from iree.winograd.passes.match.navigation import defining_operation
from iree.winograd.passes.match.values.constants import splat_element

_MOST_STEPS = 64
"""Of the arithmetic of an element: more than any resizing has."""


@dataclass(frozen=True)
class PositionStep:
    """A number: what an operation computes of those of steps before it, `operands`, or a `constant`.

    Without either it is the position, or one of the program's integers, as `text` says. It distinguishes
    operations and constants, too.
    """

    text: str
    operands: tuple[int, ...] = ()
    operation: ir.Operation | None = field(default=None, compare=False)
    constant: ir.Attribute | None = field(default=None, compare=False)


POSITION, INTEGER = PositionStep("position"), PositionStep("integer")


@dataclass(frozen=True)
class PositionArithmetic:
    """What elements of tensors are computed of where they are: `results` are their steps.

    Equal arithmetic is equal, wherever it is in a program.
    """

    steps: tuple[PositionStep, ...]
    results: tuple[int, ...]
    integers: tuple[ir.Value, ...] = field(compare=False)
    """Those of the program that it takes, in the order of their steps."""


def match_position_arithmetic(tensors: Sequence[ir.Value]) -> PositionArithmetic | None:
    """How elements of tensors of one dimension are computed of their position, all at the same one."""
    steps = _Steps()
    try:
        results = tuple(steps.element(each) for each in tensors)
    except _NotOfPositionsError:
        return None
    return PositionArithmetic(tuple(steps.steps), results, tuple(steps.integers))


class _NotOfPositionsError(Exception):
    """Something is computed of other things than positions and integers."""


class _Steps:
    """Those found so far; each value has one."""

    def __init__(self) -> None:
        self.steps: list[PositionStep] = []
        self.integers: list[ir.Value] = []
        self._numbers: dict[ir.Value, int] = {}
        self._position: int | None = None

    def element(self, tensor: ir.Value) -> int:
        """The element of a tensor at the position, or its only one."""
        if tensor not in self._numbers:
            self._numbers[tensor] = self._of_tensor(tensor)
        return self._numbers[tensor]

    def _of_tensor(self, tensor: ir.Value) -> int:
        definition = defining_operation(tensor)
        if definition is None or ir.RankedTensorType(tensor.type).rank > 1:
            raise _NotOfPositionsError
        if (element := splat_element(tensor)) is not None:
            return self._constant(element)
        elementwise = match_elementwise(definition)
        if not isinstance(elementwise, Elementwise) or elementwise.reads_init:
            raise _NotOfPositionsError
        of_body: dict[ir.Value, int] = {}
        for argument, (value, read) in zip(elementwise.body.arguments, elementwise.reads, strict=False):
            if any(True for _ in argument.uses):
                if read.results and read != ir.AffineMap.get_identity(1):
                    raise _NotOfPositionsError
                of_body[argument] = self.element(value)
        for view in list(elementwise.body.operations)[:-1]:
            operation = view.operation
            operands = [
                of_body[each] if each in of_body else self._scalar(each) for each in operation.operands
            ]
            of_body[operation.results[0]] = self._operation(operation, operands)
        yielded = elementwise.yielded
        return of_body[yielded] if yielded in of_body else self._scalar(yielded)

    def _scalar(self, value: ir.Value) -> int:
        """A number from outside of bodies."""
        if value not in self._numbers:
            definition = defining_operation(value)
            if definition is not None and definition.name == "arith.constant":
                self._numbers[value] = self._constant(definition.attributes["value"])
            elif is_of_positions(value.type):
                self.integers.append(value)
                self._numbers[value] = self._add(INTEGER)
            elif definition is None or definition.name.startswith("tensor."):
                raise _NotOfPositionsError
            else:
                operands = [self._scalar(each) for each in definition.operands]
                self._numbers[value] = self._operation(definition, operands)
        return self._numbers[value]

    def _operation(self, operation: ir.Operation, operands: list[int]) -> int:
        if operation.name == "linalg.index":
            if self._position is None:
                self._position = self._add(POSITION)
            return self._position
        is_known = operation.name.startswith(("arith.", "math.")) and len(operation.results) == 1
        if not is_known or not _is_computed(operation.results[0].type):
            raise _NotOfPositionsError
        attributes = {name: str(operation.attributes[name]) for name in operation.attributes}
        text = f"{operation.name} {attributes} {operation.results[0].type}"
        return self._add(PositionStep(text, tuple(operands), operation))

    def _constant(self, value: ir.Attribute) -> int:
        if not isinstance(value, ir.FloatAttr | ir.IntegerAttr) or not _is_computed(value.type):
            raise _NotOfPositionsError
        return self._add(PositionStep(str(value), constant=value))

    def _add(self, step: PositionStep) -> int:
        if len(self.steps) == _MOST_STEPS:
            raise _NotOfPositionsError
        self.steps.append(step)
        return len(self.steps) - 1


def _is_computed(type_: ir.Type) -> bool:
    is_truth = isinstance(type_, ir.IntegerType) and type_.width == 1
    return is_truth or is_of_positions(type_) or isinstance(type_, ir.F32Type | ir.F16Type | ir.BF16Type)
