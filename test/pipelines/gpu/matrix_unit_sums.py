"""Sums as matrix units of NVIDIA's GPUs have them.

They truncate as those of an A100 do (Fasi et al., Numerical behavior of NVIDIA tensor cores, PeerJ Computer
Science 2021): of exact products what is two bits below those of the largest addend, then the sum to 24 bits.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]

_SUMMED_BITS, _EXTRA_BITS = 24, 2


def product_on_matrix_units(left: Array, right: Array, sums: Array) -> Array:
    """The product of two matrices, added to `sums`."""
    rows, terms = left.shape
    addends = np.empty((rows, terms + 1, right.shape[1]))
    with np.errstate(all="ignore"):
        np.multiply(left[:, :, None], right[None], out=addends[:, :terms])
        addends[:, terms] = sums
        return summed_on_matrix_units(addends)


def summed_on_matrix_units(addends: Array) -> Array:
    """Sums over the second dimension, as matrix units have them."""
    largest = np.abs(addends).max(1, keepdims=True)
    finite = np.isfinite(largest)
    _, exponent = np.frexp(np.where(finite, largest, 1.0))
    unit = np.ldexp(1.0, exponent - _SUMMED_BITS - _EXTRA_BITS)
    kept = addends / unit
    np.trunc(kept, out=kept)
    kept *= unit
    total = (kept if finite.all() else np.where(finite, kept, addends)).sum(1)
    _, exponent = np.frexp(np.where(np.isfinite(total), total, 1.0))
    unit = np.ldexp(1.0, exponent - _SUMMED_BITS)
    return np.where(np.isfinite(total), np.trunc(total / unit) * unit, total).astype(np.float32)
