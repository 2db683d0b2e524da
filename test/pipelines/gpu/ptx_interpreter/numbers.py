"""Types of registers, and the numbers that their bits are."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]

_TF32_BITS, _UPPER_HALF = 0xFFFFE000, 0xFFFF0000
TYPES: Mapping[str, type[np.generic]] = {
    "b8": np.uint8,
    "b16": np.uint16,
    "u16": np.uint16,
    "s16": np.int16,
    "b32": np.uint32,
    "u32": np.uint32,
    "s32": np.int32,
    "f16": np.float16,
    "f32": np.float32,
    "b64": np.uint64,
    "u64": np.uint64,
    "s64": np.int64,
    "pred": np.bool_,
}
NUMBERS: Mapping[str, Callable[[Array], Array]] = {
    "f16": lambda bits: bits.view(np.float16).astype(np.float64),
    "bf16": lambda bits: _single(bits.astype(np.uint32) << np.uint32(16)),
}
FACTORS: Mapping[str, tuple[Callable[[Array], list[Array]], int]] = {
    "tf32": (lambda bits: [_single(bits & np.uint32(_TF32_BITS))], 1),
    "bf16": (lambda bits: [_single(bits << np.uint32(16)), _single(bits & np.uint32(_UPPER_HALF))], 2),
    "f16": (lambda bits: [_f16(bits), _f16(bits >> np.uint32(16))], 2),
}
"""What a register holds of an operand of matrix units, and how many numbers that is."""
HALVES: Mapping[str, Callable[[Array], Array]] = {
    "f16x2": lambda single: single.astype(np.float16).view(np.uint16),
    "bf16x2": lambda single: _upper_half(single.view(np.uint32)),
}
"""What a register's half is of a number of fp32."""
PAIRS: Mapping[str, str] = {"f16x2": "f16", "bf16x2": "bf16"}
"""What two numbers of a register are."""
ROUNDINGS: Mapping[str, Callable[[Array], Array]] = {"rmi": np.floor, "rzi": np.trunc, "rni": np.rint}


def maxima_of_pairs(left: Array, right: Array, type_: str) -> Array:
    """The larger of both in each half of a register, a NaN where one is."""
    halves = [np.ascontiguousarray(each).view(np.uint16) for each in (left, right)]
    one, other = (NUMBERS[type_](each) for each in halves)
    return np.where((one >= other) | np.isnan(one), *halves).view(np.uint32)


def _upper_half(bits: Array) -> Array:
    """bf16's nearest number, the even one of two as near."""
    return ((bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)).astype(
        np.uint16
    )


def flushed(value: Array) -> Array:
    """Without what is below the least normal number of f32."""
    return np.where(np.abs(value) < np.finfo(np.float32).tiny, np.float32(0), value)


def _single(bits: Array) -> Array:
    return bits.view(np.float32).astype(np.float64)


def _f16(bits: Array) -> Array:
    """The number that the lower half of each is."""
    return bits.astype(np.uint16).view(np.float16).astype(np.float64)
