"""The types of numbers that kernels do more with than to load and store them, by MLIR's names."""

from __future__ import annotations

from collections.abc import Mapping

from iree.winograd.dialect.bindings import ir

from .bf16 import BF16, ROUNDED_BF16, SummedUpperHalf
from .f16 import F16, SummedHalfPrecision
from .f32 import F32
from .number import Number

Numbers = Mapping[str, Number]
NUMBERS: Numbers = {number.name: number for number in (F32, F16, BF16)}
"""For any processor."""


def numbers_of(*, rounds_bf16: bool, stores_half: bool, fused_multiply_add: bool) -> Numbers:
    """For a processor of which is known whether it has instructions that round to bf16, and FMA.

    Where images are stored in half precision, what is rounded is about to be converted anyway.
    """
    if rounds_bf16:
        return {**NUMBERS, ROUNDED_BF16.name: ROUNDED_BF16}
    if stores_half:
        return NUMBERS
    return {
        **NUMBERS,
        F16.name: SummedHalfPrecision(F16.name, fused_multiply_add),
        BF16.name: SummedUpperHalf(BF16.name, fused_multiply_add),
    }


def number_of(type_: ir.Type, numbers: Numbers = NUMBERS) -> Number:
    """The type of numbers that an element type is."""
    name = str(type_)
    return numbers.get(name) or Number(name)
