"""Convolutions in the operators that torch-mlir lowers rightly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from iree.winograd.importers.transposed_padding import uncovered_padding

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
    """`aten.convolution` where torch-mlir lowers it wrongly, else NotImplemented: see `uncovered_padding`."""
    if not transposed:
        return NotImplemented
    crops = uncovered_padding(padding, weight.shape[2:], dilation, output_padding)
    if not any(crops):
        return NotImplemented
    covered = [p - crop for p, crop in zip(padding, crops, strict=True)]
    result = CONVOLUTION(image, weight, bias, stride, covered, dilation, True, output_padding, groups)
    for dimension, crop in enumerate(crops, start=2):
        if crop:
            result = result.narrow(dimension, crop, result.shape[dimension] - 2 * crop)
    return result
