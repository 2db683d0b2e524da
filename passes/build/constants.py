"""Constants of arrays."""

from __future__ import annotations

import numpy as np
from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.dialect.resource_data import resource_attribute
from iree.winograd.passes.match.constants import Array


def resource_constant(array: Array, name: str) -> ir.Value:
    """Build a `dense_resource` constant of f32 elements, rounded once; the attribute keeps the array."""
    elements = np.ascontiguousarray(array, np.float32)
    result_type = ir.RankedTensorType.get(list(elements.shape), ir.F32Type.get())
    return arith.constant(result_type, resource_attribute(elements, name, result_type))
