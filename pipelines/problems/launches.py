"""The kernels of a function for a GPU as a list in its reflection, to be launched without IREE's runtime.

It is what IREE's command buffer of the function holds, where that is the same in each call but for where
arguments, results and temporaries lie.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

LAUNCHES_KEY = "winograd.launches"
"""Of a function's reflection: a `LaunchList` in JSON."""

CONSTANTS_FUNCTION = "__winograd_constants"
"""The function of a program that returns the memory of its constants, as buffer views of bytes.

Two underscores, as IREE's own functions have them, keep it from the functions that users see.
"""

MemoryKind: TypeAlias = Literal["argument", "allocation", "constant"]


@dataclass(frozen=True)
class Memory:
    """A block of memory: an argument, what a call allocates, or a constant, by its number among those."""

    kind: MemoryKind
    number: int


@dataclass(frozen=True)
class Place:
    """Where something begins: a number of bytes into `memory`."""

    memory: Memory
    offset: int


@dataclass(frozen=True)
class Launch:
    """A kernel: its name, workgroups in x, y and z, and its operands, tensors and then 32-bit numbers."""

    kernel: str
    workgroups: tuple[int, int, int]
    tensors: tuple[Place, ...]
    numbers: tuple[int, ...] = ()


@dataclass(frozen=True)
class Fill:
    """`pattern`, of `width` bytes, again and again over `length` bytes."""

    target: Place
    length: int
    pattern: int
    width: int


@dataclass(frozen=True)
class Copy:
    """`length` bytes."""

    source: Place
    target: Place
    length: int


Command: TypeAlias = Launch | Fill | Copy

_NAMES = {Launch: "launch", Fill: "fill", Copy: "copy"}


@dataclass(frozen=True)
class ResultPlace:
    """Where a result lies, row-major, in memory that a call allocates or in an argument's.

    `element_type` is MLIR's name: "f32".
    """

    place: Place
    element_type: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class LaunchList:
    """What a call does.

    `stages` are done one after the other, commands of one in any order. `allocations` are the bytes of each
    block that a call needs.
    """

    stages: tuple[tuple[Command, ...], ...]
    allocations: tuple[int, ...]
    results: tuple[ResultPlace, ...]

    def to_json(self) -> str:
        """The list as text without spaces, which reflection splits words at."""
        stages = [[_encoded(command) for command in stage] for stage in self.stages]
        results = [
            [*_encoded_place(result.place), result.element_type, result.shape] for result in self.results
        ]
        content = {
            "stages": stages,
            "allocations": self.allocations,
            "results": results,
        }
        return json.dumps(content, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> LaunchList:
        """The list of which `text` is the JSON. Raises ValueError for other text."""
        try:
            content = json.loads(text)
            return LaunchList(
                tuple(tuple(map(_decoded, stage)) for stage in content["stages"]),
                tuple(content["allocations"]),
                tuple(
                    ResultPlace(_decoded_place(place), element_type, tuple(shape))
                    for *place, element_type, shape in content["results"]
                ),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a list of launches: {error!r}") from None


def _encoded(command: Command) -> list[Any]:
    fields = [_encoded_field(getattr(command, name)) for name in type(command).__dataclass_fields__]
    return [_NAMES[type(command)], *fields]


def _encoded_field(value: Any) -> Any:
    if isinstance(value, Place):
        return _encoded_place(value)
    if isinstance(value, tuple) and value and isinstance(value[0], Place):
        return [_encoded_place(place) for place in value]
    return value


def _encoded_place(place: Place) -> list[Any]:
    return [place.memory.kind, place.memory.number, place.offset]


def _decoded(command: Sequence[Any]) -> Command:
    name, *fields = command
    if name == "launch":
        kernel, workgroups, tensors, numbers = fields
        return Launch(kernel, tuple(workgroups), tuple(map(_decoded_place, tensors)), tuple(numbers))
    if name == "fill":
        target, length, pattern, width = fields
        return Fill(_decoded_place(target), length, pattern, width)
    source, target, length = fields
    return Copy(_decoded_place(source), _decoded_place(target), length)


def _decoded_place(place: Sequence[Any]) -> Place:
    kind, number, offset = place
    return Place(Memory(kind, number), offset)
