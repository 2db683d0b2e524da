"""`ReverseSequence` of steps before batches, of which IREE can't compile what torch-mlir makes."""

from __future__ import annotations

from iree.winograd.importers.onnx_nodes.registry import rewrites
from iree.winograd.importers.onnx_nodes.rewriting import Rewriting


@rewrites("ReverseSequence")
def reverse_sequence(rewriting: Rewriting) -> None:
    """Has the batch be the first dimension and the steps the second, and puts them back."""
    if rewriting.attributes.get("batch_axis", 1) == 0:
        return
    steps, lengths = rewriting.node.input
    order = [1, 0, *range(2, rewriting.rank(0))]
    batches = rewriting.add("Transpose", steps, perm=order)
    reversed_ = rewriting.add("ReverseSequence", batches, lengths, batch_axis=0, time_axis=1)
    rewriting.add("Transpose", reversed_, perm=order, into=rewriting.node.output[0])
