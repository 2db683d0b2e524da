"""Stores that write nothing where a condition doesn't hold, as NVIDIA's GPUs have them."""

from __future__ import annotations

from iree.winograd.dialect.bindings import arith, ir, llvm, vector
from iree.winograd.pipelines.emission.index import Condition, Index
from iree.winograd.pipelines.gpu.device.predicated_instruction import (
    done_where,
    register_list,
    width_suffix,
)

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
    values = [f"${number + 1}" for number in range(count)]
    instruction, operands, added = done_where(
        exists,
        f"st.global.{width_suffix(count, _WORD_BITS)} [$0], {register_list(values)};",
        [
            arith.index_cast(ir.IntegerType.get_signless(64), address.value),
            *(vector.extract(words, [], [number]) for number in range(count)),
        ],
    )
    constraints = ["l", *["r"] * count, *added]
    llvm.inline_asm(None, operands, instruction, ",".join([*constraints, "~{memory}"]), has_side_effects=True)
