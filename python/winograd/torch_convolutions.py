"""Convolutions in the operators that torch-mlir lowers rightly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

CONVOLUTION = torch.ops.aten.convolution.default


def convolution(
    image: Any,
    weight: Any,
    bias: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Any:
    """`aten.convolution` where torch-mlir lowers it wrongly, else NotImplemented.

    Padding of a transposed convolution takes results away, at both ends, and output padding adds some at the
    end. torch-mlir has fewer zeros around the image instead. Where these don't suffice for the padding, it
    cuts off the image at both ends, and reads beyond it if output padding makes up for that at the one. So
    what the filter's extent doesn't cover of such padding is cropped here.
    """
    if not transposed:
        return NotImplemented
    extents = [d * (taps - 1) for d, taps in zip(dilation, weight.shape[2:], strict=True)]
    covered = [
        extent if extent < p < extent + more else p
        for p, extent, more in zip(padding, extents, output_padding, strict=True)
    ]
    if covered == list(padding):
        return NotImplemented
    result = CONVOLUTION(image, weight, bias, stride, covered, dilation, True, output_padding, groups)
    for dimension, (p, taken) in enumerate(zip(padding, covered, strict=True), start=2):
        if p > taken:
            result = result.narrow(dimension, p - taken, result.shape[dimension] - 2 * (p - taken))
    return result
