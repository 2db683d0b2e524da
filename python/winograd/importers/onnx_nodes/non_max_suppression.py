"""`NonMaxSuppression` with a least score, with which torch-mlir's ends where a score isn't above it."""

from __future__ import annotations

import numpy as np
from iree.winograd.importers.onnx_nodes.registry import rewrites
from iree.winograd.importers.onnx_nodes.rewriting import Rewriting

_THRESHOLD = 4
"""The index of the operand with the least score."""


@rewrites("NonMaxSuppression")
def non_max_suppression(rewriting: Rewriting) -> None:
    """Drops selected boxes whose score isn't above the least one.

    Boxes are selected in the order of their scores: none that is dropped suppresses one that is kept.
    """
    threshold = rewriting.operand(_THRESHOLD)
    if threshold is None:
        return
    operands, scores = rewriting.node.input[:_THRESHOLD], rewriting.node.input[1]
    selected = rewriting.add("NonMaxSuppression", *operands, **rewriting.attributes)
    is_above = rewriting.add("Greater", rewriting.add("GatherND", scores, selected), threshold)
    places = rewriting.add(
        "Squeeze", rewriting.add("NonZero", is_above), rewriting.constant_of([0], np.int64)
    )
    result = rewriting.node.output[0]
    declared = rewriting.shape(result) or (None,)
    known = [size for size in declared if size is not None]
    if len(known) < len(declared):
        rewriting.add("Gather", selected, places, into=result)
    else:
        # A model may say how many there are; the types of what is computed don't.
        rewriting.reshape(rewriting.add("Gather", selected, places), known, into=result)
