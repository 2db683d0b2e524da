"""The types of numbers that kernels do more with than to load and store them, by MLIR's names."""

from __future__ import annotations

from collections.abc import Mapping

from iree.winograd.dialect.bindings import ir

from .bf16 import BF16, RoundedUpperHalf, SummedUpperHalf
from .f16 import F16, SummedHalfPrecision
from .f32 import ESTIMATED_F32, F32
from .number import Number

Numbers = Mapping[str, Number]
NUMBERS: Numbers = {number.name: number for number in (F32, F16, BF16)}
"""For any processor."""


def numbers_of(
    *, rounds_bf16: bool, fused_multiply_add: bool, estimates_reciprocals: bool = False
) -> Numbers:
    """For a processor of which is known whether it has instructions that round to bf16, FMA, and AVX-512's
    estimates of reciprocals."""
    upper_half = RoundedUpperHalf if rounds_bf16 else SummedUpperHalf
    return {
        F32.name: ESTIMATED_F32 if estimates_reciprocals else F32,
        F16.name: SummedHalfPrecision(F16.name, fused_multiply_add),
        BF16.name: upper_half(BF16.name, fused_multiply_add),
    }


def number_of(type_: ir.Type, numbers: Numbers = NUMBERS) -> Number:
    """The type of numbers that an element type is."""
    name = str(type_)
    return numbers.get(name) or Number(name)
