"""Maxima that are NaN where one of their numbers is, by instructions of NVIDIA's GPUs, from sm_80 on."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir, llvm, vector
from iree.winograd.pipelines.emission.numbers.f32 import F32

from .memory import PAIR


def maximum(one: ir.Value, other: ir.Value) -> ir.Value:
    """The larger of each two lanes of vectors of f32, or of f16 or bf16, of whole pairs, without widening.

    IREE's code for `arith.maximumf` of f32 loses NaN for some targets (`IreeCode.extrema_lose_nan`).
    """
    type_ = ir.VectorType(one.type)
    if type_.element_type == F32.type:
        of_lane, register, lanes = F32.type, "f", type_
        instruction = "max.NaN.f32 $0, $1, $2;"
    else:
        of_lane, register = ir.IntegerType.get_signless(32), "r"
        lanes = ir.VectorType.get([type_.shape[0] // PAIR], of_lane)
        instruction = f"max.NaN.{type_.element_type}x2 $0, $1, $2;"
    read = [vector.bitcast(lanes, each) for each in (one, other)]
    constraints = f"={register},{register},{register}"
    larger = [
        llvm.inline_asm(of_lane, [vector.extract(each, [], [i]) for each in read], instruction, constraints)
        for i in range(lanes.shape[0])
    ]
    return vector.bitcast(type_, vector.from_elements(lanes, larger))
