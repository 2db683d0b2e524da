"""Numbers of bf16, which numpy has no type for: the upper half of an f32's bits."""

from __future__ import annotations

from typing import Any

import numpy as np

BITS = 16
_BELOW_HALF = (1 << (BITS - 1)) - 1
_QUIET = 1 << 22
"""The bit that tells a quiet NaN, without which a NaN's upper half may be that of infinity."""


def bf16_bits(numbers: Any) -> Any:
    """The bits, uint16, of the bf16 nearest to numbers of f32, of two as near the even one; NaN stays NaN."""
    single = np.asarray(numbers, np.float32)
    bits = single.view(np.uint32)
    nearest = bits + (bits >> BITS & 1) + _BELOW_HALF
    return (np.where(np.isnan(single), bits | _QUIET, nearest) >> BITS).astype(np.uint16)


def bf16_numbers(bits: Any) -> Any:
    """The numbers, f32, whose upper halves are these bits, uint16."""
    return (np.asarray(bits, np.uint16).astype(np.uint32) << BITS).view(np.float32)
