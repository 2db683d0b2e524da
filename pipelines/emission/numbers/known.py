"""The types of numbers that kernels do more with than to load and store them, by MLIR's names."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir

from .bf16 import BF16
from .f16 import F16
from .f32 import F32
from .number import Number

NUMBERS: dict[str, Number] = {number.name: number for number in (F32, F16, BF16)}


def number_of(type_: ir.Type) -> Number:
    """The type of numbers that an element type is."""
    name = str(type_)
    return NUMBERS.get(name) or Number(name)
