"""Filters of transforms, as the transforms read them."""

from __future__ import annotations

import numpy as np
from iree.winograd.dialect import ops
from iree.winograd.passes.match.values.constants import Array, constant_array


def filter_array(transform: ops.FilterTransformOp) -> Array | None:
    """The taps of a constant filter, R... x C/g x K, in the order in which `transform` has them.

    None where they are not known at compile time. A view of the constant, which may lie otherwise.
    """
    array = constant_array(transform.filter)
    if array is None:
        return None
    read: Array = array.transpose(transform.permutation)
    return np.flip(read, tuple(range(read.ndim - 2))) if transform.flipped else read
