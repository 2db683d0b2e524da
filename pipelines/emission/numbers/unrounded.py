"""Half precision that nothing is rounded to: what is computed goes on in f32."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir

from .f32 import F32
from .known import NUMBERS, Numbers
from .number import Number


class UnroundedHalf(Number):
    """Numbers of a type of half precision that keep all digits of f32."""

    @property
    def computed(self) -> Number:
        return F32

    def rounded(self, computed: ir.Value, most: float = 0.0) -> ir.Value:
        return computed


UNROUNDED_NUMBERS: Numbers = {**NUMBERS, **{name: UnroundedHalf(name) for name in ("f16", "bf16")}}
