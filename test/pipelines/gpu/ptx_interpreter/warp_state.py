"""What a warp and its workgroup have: registers, memory, barriers in that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from .numbers import TYPES, Array
from .program import Program

LANES = 32
ALL_LANES = np.full(LANES, True)
"""Of the lanes of a warp."""
SHARED_BASE = 1 << 12
GLOBAL_STEP = 1 << 40
CLUSTER_STEP = 1 << 30
"""Between the shared memory of a cluster's workgroups, as they see that of each other."""


@dataclass
class Phases:
    """Those of a barrier, each of so many arrivals."""

    expected: int
    arrivals: int = 0
    bytes: int = 0
    """Of copies, that have yet to come before the last arrival counts."""

    @property
    def turn(self) -> int:
        """How many have ended."""
        return self.arrivals // self.expected

    def are_past(self, parity: int) -> bool:
        """Whether the last one of a parity has ended."""
        return self.bytes == 0 and self.turn % 2 != parity


class WorkgroupState:
    def __init__(self, program: Program, arguments: Sequence[Array], number: tuple[int, ...]) -> None:
        self.program, self.number = program, number
        self.shared = np.full(1 << 18, 0xFF, np.uint8)
        self.phases: dict[int, Phases] = {}
        self.buffers = [each.reshape(-1).view(np.uint8) for each in arguments]
        self.parameters = {
            name: (i + 1) * GLOBAL_STEP if argument.ndim else int(argument)
            for i, (name, argument) in enumerate(zip(program.parameters, arguments, strict=True))
        }
        self.cluster = [self]
        self.has_ended = False


@dataclass
class WarpState:
    workgroup: WorkgroupState
    number: int
    registers: dict[str, Array] = field(default_factory=dict)
    copies: list[list[tuple[Array, Array, int]]] = field(default_factory=lambda: [[]])
    copies_out: list[list[tuple[Array, int, int, int]]] = field(default_factory=lambda: [[]])
    """To the device's memory, by groups: where to, the place there and in shared memory, and bytes."""
    arrivals: list[tuple[list[tuple[Array, Array, int]], int, int]] = field(default_factory=list)
    """At barriers in shared memory, of so many lanes, once copies have come."""
    maps: dict[int, Array] = field(default_factory=dict)
    """Tensor maps that the warp sees, by their addresses, as they were when it did so last."""
    products: list[list[tuple[Callable[[], None], list[str]]]] = field(default_factory=lambda: [[]])
    """Of the warp's warpgroup, those that aren't waited for, by groups, and the registers of their sums."""
    sums: dict[str, Array] = field(default_factory=dict)
    """What these are added to, by register."""

    def value(self, operand: str, type_: str) -> Array:
        wanted = TYPES[type_]
        if (found := self.registers.get(operand)) is not None:
            return found if found.dtype == wanted else found.view(wanted)
        if operand.startswith("%tid.x"):
            return (np.arange(LANES) + self.number * LANES).astype(wanted)
        if operand.startswith("%ctaid."):
            return np.full(LANES, self.workgroup.number["xyz".index(operand[-1])]).astype(wanted)
        return constant(operand, type_)

    def write(self, register: str, value: Array, active: Array) -> None:
        if active is not ALL_LANES and register in self.registers and not active.all():
            old = self.registers[register]
            value = np.where(active, value, old.view(value.dtype))
        self.registers[register] = value

    def address(self, operand: str) -> Array:
        base, _, offset = operand[1:-1].partition("+")
        if base.startswith("%"):
            found = self.registers[base].astype(np.int64)
        else:
            found = self.value(base, "u64").astype(np.int64)
        return found + int(offset or 0)

    def memory(self, space: str, address: Array, active: Array) -> tuple[Array, Array]:
        if space == "shared":
            (number,) = set((address[active] // CLUSTER_STEP).tolist())
            owner = self.workgroup.cluster[number - 1] if number else self.workgroup
            assert not owner.has_ended, "a workgroup's memory is read when it has ended"
            return owner.shared, address - number * CLUSTER_STEP - SHARED_BASE
        number = int(address[active][0]) // GLOBAL_STEP
        assert (address[active] // GLOBAL_STEP == number).all()
        return self.workgroup.buffers[number - 1], address - number * GLOBAL_STEP


@cache
def constant(operand: str, type_: str) -> Array:
    """A number that an instruction names, for each lane."""
    wanted = TYPES[type_]
    if operand == "__dynamic_shared_memory__":
        return np.full(LANES, SHARED_BASE).astype(wanted)
    if operand.startswith(("0f", "0F")):
        return np.full(LANES, int(operand[2:], 16), np.uint32).view(wanted)
    number = int(operand.removesuffix("U"), 0)
    bits = 8 * np.dtype(wanted).itemsize
    return (
        np.full(LANES, number % (1 << bits), f"u{bits // 8}").view(wanted)
        if bits > 8
        else np.full(LANES, bool(number))
    )
