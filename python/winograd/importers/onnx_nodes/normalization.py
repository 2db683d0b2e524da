"""`LpNormalization`, which torch-mlir computes along another dimension."""

from __future__ import annotations

from iree.winograd.importers.onnx_nodes.registry import rewrites
from iree.winograd.importers.onnx_nodes.rewriting import Rewriting


@rewrites("LpNormalization")
def lp_normalization(rewriting: Rewriting) -> None:
    """Divides by the norm along one dimension."""
    x, axis = rewriting.node.input[0], rewriting.attributes.get("axis", -1)
    norm = f"ReduceL{rewriting.attributes.get('p', 2)}"
    if rewriting.operator_set < 18:
        norms = rewriting.add(norm, x, axes=[axis])
    else:
        norms = rewriting.add(norm, x, rewriting.constant_of([axis]))
    zero, one = rewriting.scalar_like(0.0, x), rewriting.scalar_like(1.0, x)
    # What has a norm of 0 stays as it is.
    divisors = rewriting.add("Where", rewriting.add("Equal", norms, zero), one, norms)
    rewriting.add("Div", x, divisors, into=rewriting.node.output[0])
