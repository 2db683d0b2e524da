"""`Hardmax` before operator set 13, which is of all dimensions from one on together."""

from __future__ import annotations

from iree.winograd.importers.onnx_nodes.registry import rewrites
from iree.winograd.importers.onnx_nodes.rewriting import Rewriting

_OF_ONE_DIMENSION = 13
"""The first operator set in which it is along one dimension."""


@rewrites("Hardmax")
def hardmax(rewriting: Rewriting) -> None:
    """Makes rows of those dimensions."""
    if rewriting.operator_set >= _OF_ONE_DIMENSION:
        return
    x, axis = rewriting.node.input[0], rewriting.attributes.get("axis", 1) % rewriting.rank(0)
    sizes = rewriting.sizes(x)
    rows = rewriting.reshape(x, [rewriting.product(*sizes[:axis]), rewriting.product(*sizes[axis:])])
    largest = rewriting.add("Hardmax", rows, axis=1)
    rewriting.reshape(largest, sizes, into=rewriting.node.output[0])
