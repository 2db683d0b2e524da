"""The types of a program's numbers: how arrays hold them, and what rounding to them may add to errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from bounded import LEAST, ROUNDOFF, Array, Bounded
from iree.winograd.dialect.algebra.bf16 import bf16_numbers
from iree.winograd.loading.element_types import named_type


@dataclass(frozen=True)
class NumberType:
    """A type of floating point that is stored; programs compute in f32, and round where they say so."""

    name: str
    """MLIR's."""
    array_name: str
    """That of numpy, or of ml_dtypes."""
    roundoff: float
    largest: float
    least: float
    """The distance of the smallest numbers, or the least normal one where others may become zero."""
    zero_below: float = 0.0
    """Numbers below may become zero where they are read or rounded."""

    @property
    def is_computed(self) -> bool:
        """Whether all arithmetic is in it, so that what each operation adds to errors is its rounding."""
        return self.name == "f32"

    def stored(self, numbers: npt.ArrayLike) -> npt.NDArray[Any]:
        """An array of the nearest numbers, as programs take it."""
        # float32 holds more than twice the digits: rounding twice is rounding once, but for some ties.
        single = np.asarray(numbers).astype(np.float32)
        if self.array_name != "bfloat16":
            with np.errstate(over="ignore"):
                return single.astype(self.array_name)
        bits = single.view(np.uint32)
        rounded = np.where(np.isnan(single), bits, bits + (0x7FFF + ((bits >> 16) & 1)).astype(np.uint32))
        type_ = named_type(self.array_name)
        assert type_ is not None
        return (rounded >> 16).astype(np.uint16).view(type_.dtype)

    def numbers(self, array: npt.NDArray[Any]) -> Array:
        """What an array of this type holds, in float64."""
        if self.array_name != "bfloat16":
            return array.astype(np.float64)
        return np.asarray(bf16_numbers(array.view(np.uint16)), np.float64)

    def nearest(self, numbers: npt.ArrayLike) -> Array:
        return self.numbers(self.stored(numbers))

    def read(self, a: Bounded) -> Bounded:
        """Exact numbers, as programs read them."""
        return Bounded(a.value, np.where(np.abs(a.value) < self.zero_below, np.abs(a.value), a.error))

    def rounded(self, a: Bounded) -> Bounded:
        """`a`, computed in f32, and then rounded to this type where that is another one."""
        if self.is_computed:
            return a
        with np.errstate(invalid="ignore"):
            error = a.error + self.roundoff * a.magnitude + max(self.least, self.zero_below)
            is_bounded = a.magnitude + error <= self.largest
        return Bounded(a.value, np.where(is_bounded, error, np.inf))


NUMBER_TYPES: Mapping[str, NumberType] = {
    each.name: each
    for each in (
        NumberType("f32", "float32", ROUNDOFF, float(np.finfo(np.float32).max), LEAST),
        NumberType("f16", "float16", 2.0**-11, 65504.0, 2.0**-24),
        NumberType("bf16", "bfloat16", 2.0**-8, 2.0**128 - 2.0**120, 2.0**-126),
    )
}
"""By MLIR's names."""
