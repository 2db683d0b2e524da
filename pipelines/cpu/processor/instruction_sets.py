"""The instruction sets that there are kernels for."""

from __future__ import annotations

from .aarch64 import AARCH64
from .instruction_set import InstructionSet
from .x86 import X86_64

INSTRUCTION_SETS: tuple[InstructionSet, ...] = (X86_64, AARCH64)


def instruction_set_of(triple: str) -> InstructionSet | None:
    """That of a target triple; None for one that there are no kernels for."""
    architecture = triple.partition("-")[0]
    return next((each for each in INSTRUCTION_SETS if architecture in each.architectures), None)
