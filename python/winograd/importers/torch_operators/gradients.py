"""Gradients of convolutions in the operators that torch-mlir lowers rightly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from iree.winograd.importers.torch_operators.convolutions import CONVOLUTION

_BACKWARD = torch.ops.aten.convolution_backward.default

LOWERED_WHOLE = "aten.convolution_backward"
"""What torch-mlir is to lower as it is, which is left for gradients of filters: to one convolution.

Its decomposition of the operator makes the gradient of a filter that has strides one for every image.
"""


def convolution_backward(
    gradient: Any,
    image: Any,
    weight: Any,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> Any:
    """`aten.convolution_backward` in terms of operators for one gradient each.

    The gradient by the image is a transposed convolution, that by the image of one of these a convolution.
    That by the filter is the operator itself, asked for nothing else; it is NotImplemented here, but for
    signals, which are images of one row, and for transposed convolutions, in which both images change roles.

    torch-mlir lowers the operator, but doesn't reverse filters of one dimension, takes no transposed
    convolutions, and no padding that exceeds the extent of the filter.
    """
    needs_image, needs_weight, needs_bias = output_mask
    if not (needs_image or needs_bias or transposed) and len(stride) > 1:
        return NotImplemented
    of_image = of_weight = of_bias = None
    if needs_image and transposed:
        unpadded = [0] * len(stride)
        of_image = CONVOLUTION(gradient, weight, None, stride, padding, dilation, False, unpadded, groups)
    elif needs_image:
        of_image = _of_image(gradient, image, weight, stride, padding, dilation, groups)
    if needs_weight:
        outputs, inputs = (image, gradient) if transposed else (gradient, image)
        of_weight = _of_weight(outputs, inputs, weight, stride, padding, dilation, groups)
    if needs_bias:
        of_bias = gradient.sum([0, *range(2, gradient.dim())])
    return of_image, of_weight, of_bias


def _of_image(
    gradient: Any,
    image: Any,
    weight: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Any:
    extents = [d * (taps - 1) for d, taps in zip(dilation, weight.shape[2:], strict=True)]
    low = [extent - p for p, extent in zip(padding, extents, strict=True)]
    if groups == gradient.shape[1] == image.shape[1] > 1 and set(stride) == {1} and min(low) >= 0:
        # torch-mlir takes no transposed convolution of groups of one channel.
        flipped = weight.flip(list(range(2, weight.dim())))
        unpadded = [0] * len(stride)
        return CONVOLUTION(gradient, flipped, None, stride, low, dilation, False, unpadded, groups)
    unread = _unread(gradient, image, weight, stride, padding, dilation)
    return CONVOLUTION(gradient, weight, None, stride, padding, dilation, True, unread, groups)


def _unread(
    gradient: Any,
    image: Any,
    weight: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> list[int]:
    """Elements at the end of the padded image that no window of the convolution reads, per dimension."""
    return [
        size + 2 * p - (s * (outputs - 1) + d * (taps - 1) + 1)
        for size, outputs, taps, s, p, d in zip(
            image.shape[2:], gradient.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True
        )
    ]


def _of_weight(
    gradient: Any,
    image: Any,
    weight: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Any:
    is_signal = len(stride) == 1
    if is_signal:
        gradient, image, weight = (each.unsqueeze(2) for each in (gradient, image, weight))
        stride, padding, dilation = [1, *stride], [0, *padding], [1, *dilation]
    unpadded, mask = [0] * len(stride), [False, True, False]
    _, of_weight, _ = _BACKWARD(
        gradient, image, weight, None, stride, padding, dilation, False, unpadded, groups, mask
    )
    return of_weight.squeeze(2) if is_signal else of_weight
