"""Vector registers: what LLVM keeps in them."""

from __future__ import annotations

from .target import CpuTarget


def emit_free_registers(target: CpuTarget) -> None:
    """Emits a point across which no vector stays in a register, without an instruction.

    LLVM loads the constants of loops before the outermost one, and has stored sums for the next block's load.
    Where these stay in registers through a loop of products in between, which takes all that there are, its
    sums are spilled.
    """
    target.instruction_set.emit("", (*target.instruction_set.vectors(target.vector_registers), "~{memory}"))
