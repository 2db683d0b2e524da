"""Vector registers: what LLVM keeps in them."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir

from .target import CpuTarget


def emit_free_registers(target: CpuTarget) -> None:
    """Emits a point across which no vector stays in a register, without an instruction.

    LLVM loads the constants of loops before the outermost one. Where they stay in registers through a loop of
    products in between, which takes all that there are, its sums are spilled.
    """
    registers = ",".join(f"~{{xmm{number}}}" for number in range(target.vector_registers))
    ir.Operation.create(
        "llvm.inline_asm",
        attributes={
            "asm_string": ir.StringAttr.get(""),
            "constraints": ir.StringAttr.get(f"{registers},~{{memory}},~{{dirflag}},~{{fpsr}},~{{flags}}"),
            "has_side_effects": ir.UnitAttr.get(),
        },
    )
