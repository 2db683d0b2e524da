"""The types of numbers that kernels do more with than to load and store them, by MLIR's names."""

from __future__ import annotations

from collections.abc import Mapping

from iree.winograd.dialect.bindings import ir

from .bf16 import BF16, ROUNDED_BF16
from .f16 import F16
from .f32 import F32
from .number import Number

Numbers = Mapping[str, Number]
NUMBERS: Numbers = {number.name: number for number in (F32, F16, BF16)}
"""For any processor."""


def numbers_of(*, rounds_bf16: bool) -> Numbers:
    """For a processor of which is known whether it has instructions that round to bf16."""
    return {**NUMBERS, ROUNDED_BF16.name: ROUNDED_BF16} if rounds_bf16 else NUMBERS


def number_of(type_: ir.Type, numbers: Numbers = NUMBERS) -> Number:
    """The type of numbers that an element type is."""
    name = str(type_)
    return numbers.get(name) or Number(name)
