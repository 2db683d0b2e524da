"""Warps: lanes that run together where they are at the same place."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .arithmetic_instructions import ArithmeticInstructions
from .matrix_instructions import MatrixInstructions
from .memory_instructions import MemoryInstructions
from .numbers import Array
from .warp_state import ALL_LANES, LANES, Phases


class Warp(ArithmeticInstructions, MemoryInstructions, MatrixInstructions):
    def run(self) -> Iterator[str]:
        """Runs until the end; stops at each barrier."""
        places = np.zeros(LANES, np.int64)
        instructions = self.workgroup.program.instructions
        end = len(instructions)
        while (following := self._next(places))[0] < end:
            place, active = following
            instruction = instructions[place]
            places[active] = place + 1
            if instruction.predicate is not None:
                chosen = self.registers[instruction.predicate]
                active = active & (~chosen if instruction.negated else chosen)
                if not active.any():
                    continue
            name = instruction.opcode[0]
            if name == "bra":
                places[active] = self.workgroup.program.labels[instruction.operands[0]]
            elif name == "ret":
                places[active] = end
            elif instruction.opcode[:2] == ("barrier", "cluster"):
                assert active.all()
                if instruction.opcode[2] == "wait":
                    self.arrive()
                    yield "cluster"
            elif instruction.opcode[:2] == ("bar", "warp"):
                assert active.all()
            elif name in ("bar", "barrier") and len(instruction.operands) > 1:
                assert active.all()
                self.arrive()
                number, threads = (int(self.value(each, "u32")[0]) for each in instruction.operands)
                # Beside those in shared memory.
                phases = self.workgroup.phases.setdefault(-number, Phases(threads))
                turn = phases.turn
                phases.arrivals += LANES
                while phases.turn == turn:
                    yield "phase"
            elif name in ("bar", "barrier"):
                assert active.all()
                self.arrive()
                yield "barrier"
            elif name == "await":
                # One lane may wait by itself, if others don't go on meanwhile.
                (place,) = set(self.address(instruction.operands[0])[active].tolist())
                (parity,) = set(self.value(instruction.operands[1], "u32")[active].tolist())
                while not self.workgroup.phases[place].are_past(parity):
                    self.arrive()
                    yield "phase"
            else:
                getattr(self, f"do_{name}")(instruction, active)
        self.arrive()

    def _next(self, places: Array) -> tuple[int, Array]:
        """Where lanes go on, and which: those that are furthest behind, unless they wait for all others."""
        found = set(places.tolist())
        if len(found) == 1:
            return found.pop(), ALL_LANES
        place = min(found - self.workgroup.program.waiting or found)
        return place, places == place
