"""Loads that read nothing where a condition doesn't hold, as NVIDIA's GPUs have them."""

from __future__ import annotations

from iree.winograd.dialect.bindings import arith, ir, llvm, vector
from iree.winograd.pipelines.emission.index import Condition, Index
from iree.winograd.pipelines.emission.vectors import splat, vector_type
from iree.winograd.pipelines.gpu.device.memory import GlobalBuffer
from iree.winograd.pipelines.gpu.device.predicated_instruction import (
    ConditionBit,
    done_where,
    register_list,
    width_suffix,
)

_WORD_BYTES = 4
_CONSTRAINTS = {16: "=h", 32: "=r"}
"""Of LLVM, by the bits of a register."""


def load_where(buffer: GlobalBuffer, offset: Index, exists: Condition | ConditionBit) -> ir.Value:
    """What is loaded at once from `offset` on of an array by quads, or parts of them, or zeros.

    Of an array of scalars that is one, as a vector. The kernel doesn't write the array.

    The offset may be any where it doesn't exist: no place has to be computed that lies in the array, and no
    register selected.
    """
    together = buffer.together if buffer.by_quads else 1
    if isinstance(exists, Condition) and exists.known is False:
        return splat(0.0, together, buffer.computed)
    loaded_bytes = buffer.memref_element_bytes
    words = max(1, loaded_bytes // _WORD_BYTES)
    word = ir.IntegerType.get_signless(8 * loaded_bytes // words)
    address = buffer.address + offset * buffer.number.bytes
    results = [f"${number}" for number in range(words)]
    # Not by `.nc`: where kernels are launched early, the one before may still write the image.
    instruction, operands, added = done_where(
        exists,
        f"ld.global.{width_suffix(words, word.width)} {register_list(results)}, [${words}];",
        [arith.index_cast(ir.IntegerType.get_signless(64), address.value)],
        results=words,
        otherwise=" ".join(f"mov.b{word.width} {each}, 0;" for each in results),
    )
    constraints = [*[_CONSTRAINTS[word.width]] * words, "l", *added]
    if words == 1:
        of_words = [llvm.inline_asm(word, operands, instruction, ",".join(constraints))]
    else:
        struct = ir.Type.parse(f"!llvm.struct<({', '.join([str(word)] * words)})>")
        loaded = llvm.inline_asm(struct, operands, instruction, ",".join(constraints))
        of_words = [llvm.extractvalue(word, loaded, [number]) for number in range(words)]
    stored = vector.from_elements(vector_type(words, word), of_words)
    return buffer.number.widened(vector.bitcast(vector_type(together, buffer.element), stored))
