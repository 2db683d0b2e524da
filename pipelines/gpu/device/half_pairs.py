"""What NVIDIA's GPUs compute of pairs of numbers of half precision, without widening them."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir, llvm, vector

from .memory import PAIR


def maximum(one: ir.Value, other: ir.Value) -> ir.Value:
    """The larger of each two lanes of vectors of f16 or bf16, of whole pairs; NaN where one of them is."""
    type_ = ir.VectorType(one.type)
    word = ir.IntegerType.get_signless(32)
    words = ir.VectorType.get([type_.shape[0] // PAIR], word)
    instruction = f"max.NaN.{type_.element_type}x2 $0, $1, $2;"
    read = [vector.bitcast(words, each) for each in (one, other)]
    larger = [
        llvm.inline_asm(word, [vector.extract(each, [], [i]) for each in read], instruction, "=r,r,r")
        for i in range(words.shape[0])
    ]
    return vector.bitcast(type_, vector.from_elements(words, larger))
