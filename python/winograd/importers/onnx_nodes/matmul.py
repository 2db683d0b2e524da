"""`MatMul` of several matrices by one, which torch-mlir copies for each of them."""

from __future__ import annotations

from iree.winograd.importers.onnx_nodes.registry import rewrites
from iree.winograd.importers.onnx_nodes.rewriting import Rewriting


@rewrites("MatMul")
def matmul(rewriting: Rewriting) -> None:
    """Makes one product of all rows, as a linear layer is."""
    rows, matrix = rewriting.node.input
    shapes = rewriting.shape(rows), rewriting.shape(matrix)
    if None in shapes or len(shapes[0] or ()) < 3 or len(shapes[1] or ()) != 2:
        return
    *leading, length = rewriting.sizes(rows)
    columns = rewriting.sizes(matrix)[1]
    together = rewriting.reshape(rows, [rewriting.product(*leading), length])
    product = rewriting.add("MatMul", together, matrix)
    rewriting.reshape(product, [*leading, columns], into=rewriting.node.output[0])
