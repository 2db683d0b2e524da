"""Stores that write nothing where a condition doesn't hold, as NVIDIA's GPUs have them."""

from __future__ import annotations

from iree.winograd.dialect.bindings import arith, ir, llvm, vector
from iree.winograd.pipelines.emission.index import Condition, Index

_WORD_BITS = 32


def store_where(stored: ir.Value, address: Index, exists: Condition) -> None:
    """Writes a vector of one to four words at once, to the device's memory at a multiple of its bytes.

    No branch is around it, and what it writes is computed in either case.
    """
    if exists.known is False:
        return
    type_ = ir.VectorType(stored.type)
    count = type_.shape[0] * type_.element_type.width // _WORD_BITS
    word = ir.IntegerType.get_signless(_WORD_BITS)
    words = vector.bitcast(ir.VectorType.get([count], word), stored)
    operands = [arith.index_cast(ir.IntegerType.get_signless(64), address.value)]
    operands += [vector.extract(words, [], [number]) for number in range(count)]
    values = [f"${number + 1}" for number in range(count)]
    kind = f"v{count}.b32" if count > 1 else "b32"
    source = f"{{{', '.join(values)}}}" if count > 1 else values[0]
    instruction = f"st.global.{kind} [$0], {source};"
    constraints = ["l", *["r"] * count]
    if exists.known is None:
        operands.append(arith.extui(word, exists.value))
        constraints.append("r")
        instruction = (
            f"{{ .reg .pred %exists; setp.ne.b32 %exists, ${count + 1}, 0; @%exists {instruction} }}"
        )
    llvm.inline_asm(None, operands, instruction, ",".join([*constraints, "~{memory}"]), has_side_effects=True)
