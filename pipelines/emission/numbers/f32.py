"""Single precision: stored as it is computed with."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from iree.winograd.pipelines.emission.functions import error_function, exponential

from .number import Function, Number


class SinglePrecision(Number):
    """Numbers of 24 bits, whose exponents have 8."""

    def functions(self, fused_multiply_add: bool) -> Mapping[str, Function]:
        return {
            "math.exp": partial(exponential, fused=fused_multiply_add),
            "math.erf": partial(error_function, fused=fused_multiply_add),
        }


F32 = SinglePrecision("f32")
