"""Instructions on memory that are done where a condition holds, as NVIDIA's GPUs have them."""

from __future__ import annotations

from collections.abc import Sequence

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.pipelines.emission.index import Condition

PREDICATE_BITS = 32
"""Of the register that a condition is handed in."""


def width_suffix(registers: int, bits: int) -> str:
    """What PTX has behind an instruction on so many registers of so many bits each, at once."""
    return f"v{registers}.b{bits}" if registers > 1 else f"b{bits}"


def register_list(names: Sequence[str]) -> str:
    """The operand of such an instruction."""
    return f"{{{', '.join(names)}}}" if len(names) > 1 else names[0]


def done_where(
    exists: Condition, instruction: str, operands: list[ir.Value], *, results: int = 0, otherwise: str = ""
) -> tuple[str, list[ir.Value], list[str]]:
    """An instruction on `operands`, behind so many results, that is done where `exists`, known or not, holds.

    `otherwise` is done before in any case. Returns the text for LLVM's inline assembly, all operands, and the
    constraints of those that were added. It is for conditions that aren't known not to hold.
    """
    if exists.known is not None:
        return instruction, operands, []
    predicate = arith.extui(ir.IntegerType.get_signless(PREDICATE_BITS), exists.value)
    number = results + len(operands)
    before = f"{otherwise} " if otherwise else ""
    text = f"{{ .reg .pred %exists; setp.ne.b32 %exists, ${number}, 0; {before}@%exists {instruction} }}"
    return text, [*operands, predicate], ["r"]
