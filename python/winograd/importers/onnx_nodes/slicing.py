"""`Slice` by negative steps, of which torch-mlir makes slices that begin before an image."""

from __future__ import annotations

import numpy as np
from iree.winograd.importers.onnx_nodes.registry import rewrites
from iree.winograd.importers.onnx_nodes.rewriting import Rewriting

_STEPS = 4
"""The index of the operand with the steps."""


@rewrites("Slice")
def slice_(rewriting: Rewriting) -> None:
    """Gathers the places that negative steps come to; the others are sliced before."""
    starts, ends, axes, steps = (rewriting.constant(index) for index in range(1, _STEPS + 1))
    if steps is None or min(steps, default=0) >= 0:
        return
    if starts is None or ends is None:
        rewriting.refuse("negative steps and bounds that are known only at run time")
    image, sizes = rewriting.node.input[0], rewriting.shape(rewriting.node.input[0]) or ()
    places = np.arange(len(starts)) if axes is None else axes % rewriting.rank(0)
    bounds = np.stack([starts, ends, places, steps], axis=-1)
    forward = bounds[steps > 0]
    if len(forward) > 0:
        operands = (rewriting.constant_of(each, np.int64) for each in forward.T)
        image = rewriting.add("Slice", image, *operands)
    for start, end, axis, step in bounds[steps < 0].tolist():
        if (size := sizes[axis]) is None:
            rewriting.refuse("negative steps and sizes that are known only at run time")
        chosen = np.arange(size)[start:end:step]
        image = rewriting.add("Gather", image, rewriting.constant_of(chosen, np.int64), axis=axis)
    rewriting.add("Identity", image, into=rewriting.node.output[0])
