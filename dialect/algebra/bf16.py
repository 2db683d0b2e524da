"""Numbers of bf16, which numpy has no type for: the upper half of an f32's bits."""

from __future__ import annotations

from typing import Any

import numpy as np

BITS = 16
_BELOW_HALF = (1 << (BITS - 1)) - 1
_QUIET = 1 << 22
"""The bit that tells a quiet NaN, without which a NaN's upper half may be that of infinity."""
_CHUNK = 1 << 15
"""Numbers whose intermediate results stay in L2: a pass over filters of a large model waits for memory."""


def bf16_bits(numbers: Any) -> Any:
    """The bits, uint16, of the bf16 nearest to numbers of f32, of two as near the even one; NaN stays NaN."""
    single = np.asarray(numbers, np.float32)
    result = np.empty(single.shape, np.uint16)
    given, written = single.reshape(-1), result.reshape(-1)
    for first in range(0, given.size, _CHUNK):
        chunk = given[first : first + _CHUNK]
        bits = chunk.view(np.uint32)
        nearest = bits >> BITS
        nearest &= 1
        nearest += bits
        nearest += _BELOW_HALF
        is_nan = np.isnan(chunk)
        if is_nan.any():
            np.copyto(nearest, bits | _QUIET, where=is_nan)
        nearest >>= BITS
        written[first : first + _CHUNK] = nearest
    return result


def bf16_numbers(bits: Any) -> Any:
    """The numbers, f32, whose upper halves are these bits, uint16."""
    return (np.asarray(bits, np.uint16).astype(np.uint32) << BITS).view(np.float32)
