"""What kernels of attention read for a mask of truth values."""

from __future__ import annotations

from math import inf

from iree.winograd.dialect.bindings import arith, ir, tensor
from iree.winograd.passes.build.generic import build_elementwise


def as_added(truth: ir.Value) -> ir.Value:
    """Builds zeros in place of True, minus infinity of False."""
    single, identity = ir.F32Type.get(), ir.AffineMap.get_identity(truth.type.rank)
    nothing, lowest = (arith.constant(single, number) for number in (0.0, -inf))
    return build_elementwise(
        [(truth, identity)],
        tensor.empty(truth.type.shape, single),
        lambda elements: arith.select(elements[0], nothing, lowest),
    )
