"""Loads that read nothing where a condition doesn't hold, as NVIDIA's GPUs have them."""

from __future__ import annotations

from iree.winograd.dialect.bindings import arith, ir, llvm, vector
from iree.winograd.pipelines.emission.index import Condition, Index
from iree.winograd.pipelines.emission.vectors import vector_type
from iree.winograd.pipelines.gpu.device.memory import QUAD, GlobalBuffer

_WORD_BYTES = 4


def load_where(buffer: GlobalBuffer, offset: Index, exists: Condition) -> ir.Value:
    """The quad from `offset` on of an array by quads that the kernel doesn't write, or zeros.

    The offset may be any where it doesn't exist: no place has to be computed that lies in the array, and no
    register selected. Raises ValueError for an array that isn't by quads.
    """
    if not buffer.by_quads:
        raise ValueError("quads of an array of scalars are gathered")
    word, words = ir.IntegerType.get_signless(32), QUAD * buffer.number.bytes // _WORD_BYTES
    address = buffer.address + offset * buffer.number.bytes
    operands = [arith.index_cast(ir.IntegerType.get_signless(64), address.value)]
    results = [f"${number}" for number in range(words)]
    # Not by `.nc`: where kernels are launched early, the one before may still write the image.
    instruction = f"ld.global.v{words}.b32 {{{', '.join(results)}}}, [${words}];"
    constraints = [*["=r"] * words, "l"]
    if exists.known is None:
        operands.append(arith.extui(word, exists.value))
        constraints.append("r")
        zeros = " ".join(f"mov.b32 {each}, 0;" for each in results)
        instruction = (
            f"{{ .reg .pred %exists; setp.ne.b32 %exists, ${words + 1}, 0; {zeros} @%exists {instruction} }}"
        )
    struct = ir.Type.parse(f"!llvm.struct<({', '.join([str(word)] * words)})>")
    loaded = llvm.inline_asm(struct, operands, instruction, ",".join(constraints))
    of_words = [llvm.extractvalue(word, loaded, [number]) for number in range(words)]
    stored = vector.from_elements(vector_type(words, word), of_words)
    return buffer.number.widened(vector.bitcast(vector_type(QUAD, buffer.element), stored))
