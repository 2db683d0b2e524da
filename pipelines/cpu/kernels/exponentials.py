"""What softmax of rows and of columns share: what is subtracted before exponentials, and what scales them."""

from __future__ import annotations

from math import inf

import numpy as np
from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.pipelines.emission.vectors import splat

_F32 = np.finfo(np.float32)


def lowest(safe: bool) -> float:
    """What the largest element is at least.

    Of nothing but minus infinity a `safe` softmax subtracts a finite number: exponentials are 0, not NaN.
    """
    return float(_F32.min) if safe else -inf


def inverse_sum(total: ir.Value, safe: bool) -> ir.Value:
    """What exponentials are multiplied by, of a vector of their sums.

    A sum is 1 or more, but for the sum of zeros of a `safe` softmax, whose inverse is kept finite.
    """
    vector = ir.VectorType(total.type)
    width, element = vector.shape[0], vector.element_type
    if safe:
        total = arith.maximumf(total, splat(float(_F32.smallest_normal), width, element))
    return arith.divf(splat(1.0, width, element), total)
