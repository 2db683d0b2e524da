"""The kernels of a function whose sizes are known only in a call, as a list in its reflection.

It holds the arithmetic by which the program computes sizes, counts of workgroups and offsets from the shapes
of arguments: whoever launches the kernels does it once for each shape.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from .launches import Command, Copy, Fill, Launch, LaunchList, Place, ResultPlace

OPEN_LAUNCHES_KEY = "winograd.open_launches"
"""Of a function's reflection: `OpenLaunches` in JSON."""

CONSTANT, SIZE = "constant", "size"
"""The steps that take nothing of others: a number, and a dimension of an argument."""

LARGEST_SIZE = (1 << 31) - 1
"""Of a dimension that kernels for GPUs are told: they compare and divide sizes by 32 bits."""
MOST_PIXELS = (1 << 32) - (1 << 16)
"""Of an image that they number by 32 bits, and of what lies behind the last ones in a workgroup."""
_NUMBER_BITS = 32
"""Of the numbers that kernels take."""


def _quotient(dividend: int, divisor: int) -> int:
    """Rounded down; that by zero isn't defined, and no program uses it."""
    return dividend // divisor if divisor else 0


def _remainder(dividend: int, divisor: int) -> int:
    return dividend % divisor if divisor else 0


def _towards_zero(dividend: int, divisor: int) -> int:
    quotient = _quotient(abs(dividend), abs(divisor))
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


def _rounded_up(dividend: int, divisor: int) -> int:
    return -_quotient(-dividend, divisor)


def _itself(value: int) -> int:
    return value


_SIGNED: Mapping[str, Callable[..., int]] = MappingProxyType(
    {
        "arith.addi": operator.add,
        "arith.andi": operator.and_,
        "arith.ceildivsi": _rounded_up,
        "arith.cmpi:eq": operator.eq,
        "arith.cmpi:ne": operator.ne,
        "arith.cmpi:sge": operator.ge,
        "arith.cmpi:sgt": operator.gt,
        "arith.cmpi:sle": operator.le,
        "arith.cmpi:slt": operator.lt,
        "arith.divsi": _towards_zero,
        "arith.extsi": _itself,
        "arith.floordivsi": _quotient,
        "arith.index_cast": _itself,
        "arith.maxsi": max,
        "arith.minsi": min,
        "arith.muli": operator.mul,
        "arith.ori": operator.or_,
        "arith.remsi": lambda dividend, divisor: dividend - divisor * _towards_zero(dividend, divisor),
        "arith.select": lambda condition, chosen, other: chosen if condition else other,
        "arith.subi": operator.sub,
        "arith.trunci": _itself,
        "arith.xori": operator.xor,
    }
)
"""What operations compute of operands with a sign."""
_UNSIGNED: Mapping[str, Callable[..., int]] = MappingProxyType(
    {
        "arith.ceildivui": _rounded_up,
        "arith.cmpi:uge": operator.ge,
        "arith.cmpi:ugt": operator.gt,
        "arith.cmpi:ule": operator.le,
        "arith.cmpi:ult": operator.lt,
        "arith.divui": _quotient,
        "arith.extui": _itself,
        "arith.index_castui": _itself,
        "arith.maxui": max,
        "arith.minui": min,
        "arith.remui": _remainder,
        "arith.shrui": operator.rshift,
        "util.align": lambda value, alignment: alignment * _rounded_up(value, alignment),
    }
)
"""And of those without."""

OPERATIONS = frozenset((*_SIGNED, *_UNSIGNED))
"""Those that steps may be, by MLIR's names, behind which comparisons have what they ask."""


@dataclass(frozen=True)
class Step:
    """A number of so many `bits` that is computed: `operands` are steps before it.

    Those of `CONSTANT` are a value, those of `SIZE` an argument and a dimension of it.
    """

    operation: str
    operands: tuple[int, ...]
    bits: int


@dataclass(frozen=True)
class OpenLaunches:
    """What a call does: `launches`, whose numbers stand for `steps` that compute them.

    Bytes of patterns and numbers of memory are themselves.
    """

    steps: tuple[Step, ...]
    launches: LaunchList
    asserted: tuple[int, ...] = ()
    """Steps that aren't zero for shapes that the program takes."""

    @property
    def is_open(self) -> bool:
        """Whether something depends on the arguments' shapes."""
        return any(step.operation == SIZE for step in self.steps)

    def at(self, shapes: Sequence[Sequence[int]]) -> LaunchList:
        """What a call on arguments of these `shapes` does; what has nothing to do is left out.

        That is nothing for shapes that the program doesn't take: it says itself why not.
        """
        values = self._values(shapes)
        if not all(values[each] for each in self.asserted):
            return LaunchList((), (), ())

        def place(symbolic: Place) -> Place:
            return Place(symbolic.memory, values[symbolic.offset])

        def known(command: Command) -> Iterator[Command]:
            match command:
                case Launch(kernel, (x, y, z), tensors, numbers):
                    workgroups = (values[x], values[y], values[z])
                    if all(workgroups):
                        given = tuple(values[number] % (1 << _NUMBER_BITS) for number in numbers)
                        yield Launch(kernel, workgroups, tuple(map(place, tensors)), given)
                case Fill(target, length, pattern, width):
                    if values[length]:
                        bits = values[pattern] % (1 << 8 * width)
                        yield Fill(place(target), values[length], bits, width)
                case Copy(source, target, length):
                    if values[length]:
                        yield Copy(place(source), place(target), values[length])

        stages = (
            tuple(each for command in stage for each in known(command)) for stage in self.launches.stages
        )
        return LaunchList(
            tuple(stage for stage in stages if stage),
            tuple(values[size] for size in self.launches.allocations),
            tuple(
                ResultPlace(
                    place(result.place), result.element_type, tuple(values[size] for size in result.shape)
                )
                for result in self.launches.results
            ),
        )

    def to_json(self) -> str:
        """The steps and the list as text without spaces, which reflection splits words at."""
        steps = [[step.operation, step.bits, *step.operands] for step in self.steps]
        asserted = json.dumps(self.asserted, separators=(",", ":"))
        steps_text = json.dumps(steps, separators=(",", ":"))
        return f'{{"steps":{steps_text},"asserted":{asserted},"launches":{self.launches.to_json()}}}'

    @staticmethod
    def from_json(text: str) -> OpenLaunches:
        """What `text` is the JSON of. Raises ValueError for other text."""
        try:
            content: Any = json.loads(text)
            steps = tuple(
                Step(operation, tuple(operands), bits) for operation, bits, *operands in content["steps"]
            )
            launches = LaunchList.from_json(json.dumps(content["launches"]))
            return OpenLaunches(steps, launches, tuple(content["asserted"]))
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a list of launches: {error!r}") from None

    def _values(self, shapes: Sequence[Sequence[int]]) -> list[int]:
        """What each step computes, as a number with a sign."""
        values: list[int] = []
        for step in self.steps:
            if step.operation == CONSTANT:
                (value,) = step.operands
            elif step.operation == SIZE:
                argument, dimension = step.operands
                value = shapes[argument][dimension]
            elif step.operation in _SIGNED:
                value = _SIGNED[step.operation](*(values[each] for each in step.operands))
            else:
                value = _UNSIGNED[step.operation](
                    *(values[each] % (1 << self.steps[each].bits) for each in step.operands)
                )
            values.append(_wrapped(value, step.bits))
        return values


def _wrapped(value: int, bits: int) -> int:
    """`value` as a number of so many bits with a sign."""
    half = 1 << (bits - 1)
    return (value + half) % (1 << bits) - half
