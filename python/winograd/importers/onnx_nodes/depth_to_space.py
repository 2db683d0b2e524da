"""`DepthToSpace` and `SpaceToDepth`, whose order of channels torch-mlir has wrong or has no lowering for."""

from __future__ import annotations

from iree.winograd.importers.onnx_nodes.registry import rewrites
from iree.winograd.importers.onnx_nodes.rewriting import Rewriting


@rewrites("DepthToSpace")
def depth_to_space(rewriting: Rewriting) -> None:
    """Spreads channels over blocks of an image: a block's places are the outer part of them, or the inner."""
    x, block = _operands(rewriting)
    n, c, h, w = rewriting.sizes(x)
    channels = rewriting.quotient(c, block**2)
    if rewriting.text("mode", "DCR") == "CRD":
        split = rewriting.reshape(x, [n, channels, block, block, h, w])
        order = [0, 1, 4, 2, 5, 3]
    else:
        split = rewriting.reshape(x, [n, block, block, channels, h, w])
        order = [0, 3, 4, 1, 5, 2]
    moved = rewriting.add("Transpose", split, perm=order)
    sizes = [n, channels, rewriting.product(h, block), rewriting.product(w, block)]
    rewriting.reshape(moved, sizes, into=rewriting.node.output[0])


@rewrites("SpaceToDepth")
def space_to_depth(rewriting: Rewriting) -> None:
    """Makes channels of the places in a block: the outer part of them, or the inner in the mode CRD."""
    x, block = _operands(rewriting)
    n, c, h, w = rewriting.sizes(x)
    rows, columns = rewriting.quotient(h, block), rewriting.quotient(w, block)
    split = rewriting.reshape(x, [n, c, rows, block, columns, block])
    order = [0, 1, 3, 5, 2, 4] if rewriting.text("mode", "DCR") == "CRD" else [0, 3, 5, 1, 2, 4]
    moved = rewriting.add("Transpose", split, perm=order)
    rewriting.reshape(
        moved, [n, rewriting.product(c, block**2), rows, columns], into=rewriting.node.output[0]
    )


def _operands(rewriting: Rewriting) -> tuple[str, int]:
    if rewriting.rank(0) != 4:
        rewriting.refuse(f"an image of {rewriting.rank(0)} dimensions")
    return rewriting.node.input[0], int(rewriting.attributes["blocksize"])
