"""Instructions on memory that are done where a condition holds, as NVIDIA's GPUs have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.pipelines.emission.index import Condition

PREDICATE_BITS = 32
"""Of the register that a condition is handed in."""


@dataclass(frozen=True)
class ConditionBit:
    """A condition that has one bit of a register, whose others are further conditions.

    A thread has few predicates: each further condition that is known long before it is asked for takes a
    register otherwise.
    """

    register: ir.Value
    number: int


def condition_bits(along: Sequence[Sequence[Condition]]) -> list[ConditionBit]:
    """For each position of a grid in row-major order whether the conditions of all of its dimensions hold.

    Raises ValueError for more positions than a register has bits.
    """
    word = ir.IntegerType.get_signless(PREDICATE_BITS)
    zero, bits, count = arith.constant(word, 0), arith.constant(word, 1), 1
    for conditions in reversed(along):
        shifted = [
            arith.shli(bits, arith.constant(word, number * count)) for number in range(len(conditions))
        ]
        held = [
            each if condition.known else arith.select(condition.value, each, zero)
            for condition, each in zip(conditions, shifted, strict=True)
        ]
        bits, count = reduce(arith.ori, held), count * len(conditions)
    if count > PREDICATE_BITS:
        raise ValueError(f"a register has no {count} bits")
    return [ConditionBit(bits, number) for number in range(count)]


def width_suffix(registers: int, bits: int) -> str:
    """What PTX has behind an instruction on so many registers of so many bits each, at once."""
    return f"v{registers}.b{bits}" if registers > 1 else f"b{bits}"


def register_list(names: Sequence[str]) -> str:
    """The operand of such an instruction."""
    return f"{{{', '.join(names)}}}" if len(names) > 1 else names[0]


def done_where(
    exists: Condition | ConditionBit,
    instruction: str,
    operands: list[ir.Value],
    *,
    results: int = 0,
    otherwise: str = "",
) -> tuple[str, list[ir.Value], list[str]]:
    """An instruction on `operands`, behind so many results, that is done where `exists`, known or not, holds.

    `otherwise` is done before in any case. Returns the text for LLVM's inline assembly, all operands, and the
    constraints of those that were added. It is for conditions that aren't known not to hold.
    """
    number = results + len(operands)
    if isinstance(exists, ConditionBit):
        predicate, tested = exists.register, "%bit"
        declared = f".reg .b32 %bit; and.b32 %bit, ${number}, {1 << exists.number};"
    elif exists.known is not None:
        return instruction, operands, []
    else:
        predicate = arith.extui(ir.IntegerType.get_signless(PREDICATE_BITS), exists.value)
        tested, declared = f"${number}", ""
    done = [declared, f".reg .pred %exists; setp.ne.b32 %exists, {tested}, 0;", otherwise]
    text = " ".join(["{", *filter(None, done), f"@%exists {instruction}", "}"])
    return text, [*operands, predicate], ["r"]
