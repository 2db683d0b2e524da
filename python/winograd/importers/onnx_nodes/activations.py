"""`Gelu` by the hyperbolic tangent, for which torch-mlir has the exact one."""

from __future__ import annotations

from math import pi, sqrt

from iree.winograd.importers.onnx_nodes.registry import rewrites
from iree.winograd.importers.onnx_nodes.rewriting import Rewriting


@rewrites("Gelu")
def gelu(rewriting: Rewriting) -> None:
    """x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))."""
    if rewriting.text("approximate", "none") != "tanh":
        return
    x, result = rewriting.node.input[0], rewriting.node.output[0]
    one, half, factor, cubic = (rewriting.scalar_like(each, x) for each in (1.0, 0.5, sqrt(2 / pi), 0.044715))
    cube = rewriting.add("Mul", rewriting.add("Mul", x, x), x)
    argument = rewriting.add("Mul", rewriting.add("Add", x, rewriting.add("Mul", cube, cubic)), factor)
    share = rewriting.add("Mul", rewriting.add("Add", rewriting.add("Tanh", argument), one), half)
    rewriting.add("Mul", x, share, into=result)
