"""Convolutions in the operators that torch-mlir lowers rightly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from iree.winograd.importers.transposed_padding import uncovered_padding
from torch._prims_common import suggest_memory_format

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
    """`aten.convolution` where torch-mlir has no lowering or a wrong one, else NotImplemented.

    Sequences of one number are of as many as there are spatial dimensions. Of transposed convolutions see
    `uncovered_padding` and `_depthwise_transposed`, of those of volumes `_depthwise_volume`.
    """
    rank = weight.dim() - 2
    lists = (stride, padding, dilation, output_padding)
    if any(len(each) != rank for each in lists):
        stride, padding, dilation, output_padding = (_repeated(each, rank) for each in lists)
        return CONVOLUTION(image, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
    is_depthwise = groups > 1 and weight.shape[:2] == (groups, 1)
    if is_depthwise and rank == 3 and not transposed:
        result = _depthwise_volume(image, weight, stride, padding, dilation)
        return result if bias is None else result + bias.view(-1, 1, 1, 1)
    if not transposed:
        return NotImplemented
    if is_depthwise:
        result = _depthwise_transposed(image, weight, stride, padding, dilation, output_padding)
        return result if bias is None else result + bias.view(-1, *[1] * rank)
    crops = uncovered_padding(padding, weight.shape[2:], dilation, output_padding)
    if not any(crops):
        return NotImplemented
    covered = [p - crop for p, crop in zip(padding, crops, strict=True)]
    result = CONVOLUTION(image, weight, bias, stride, covered, dilation, True, output_padding, groups)
    for dimension, crop in enumerate(crops, start=2):
        if crop:
            result = result.narrow(dimension, crop, result.shape[dimension] - 2 * crop)
    return result


def _depthwise_volume(
    image: Any, weight: Any, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> Any:
    """That of a filter for each channel: a sum of convolutions of planes, one for each tap of the depth."""
    groups, _, depth = weight.shape[:3]
    if padding[0]:
        pad = [0, 0, 0, 0, padding[0], padding[0]]
        image = torch.ops.aten.constant_pad_nd.default(image, pad, 0)
    batch, channels, size, *plane = image.shape
    planes = (size - dilation[0] * (depth - 1) - 1) // stride[0] + 1
    total: Any = None
    for tap in range(depth):
        first = tap * dilation[0]
        read = image[:, :, first : first + (planes - 1) * stride[0] + 1 : stride[0]]
        images = read.transpose(1, 2).reshape(batch * planes, channels, *plane)
        part = CONVOLUTION(
            images, weight[:, :, tap], None, stride[1:], padding[1:], dilation[1:], False, [0, 0], groups
        )
        total = part if total is None else total + part
    volume = total.unflatten(0, (batch, planes)).transpose(1, 2)
    # As torch's own result lies in memory, which has to be known where it is that of a part of a model.
    return volume.contiguous(memory_format=suggest_memory_format(image))


def _depthwise_transposed(
    image: Any,
    weight: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    output_padding: Sequence[int],
) -> Any:
    """That of a filter for each channel, for which torch-mlir writes operations that aren't valid.

    It is what it writes for others: a convolution by the flipped filter of the image between zeros.
    """
    spatial = list(range(2, weight.dim()))
    pad: list[int] = []
    for dimension, s, p, d, more in zip(spatial, stride, padding, dilation, output_padding, strict=True):
        image = _spread(image, dimension, s)
        low = d * (weight.shape[dimension] - 1) - p
        pad = [low, low + more, *pad]
    if any(pad):
        image = torch.ops.aten.constant_pad_nd.default(image, pad, 0)
    nothing = [0] * len(spatial)
    ones = [1] * len(spatial)
    flipped = weight.flip(spatial)
    return CONVOLUTION(image, flipped, None, ones, nothing, dilation, False, nothing, weight.shape[0])


def _spread(image: Any, dimension: int, stride: int) -> Any:
    """`image` with `stride` - 1 zeros between its elements along `dimension`."""
    if stride == 1:
        return image
    sizes = list(image.shape)
    sizes[dimension] = (sizes[dimension] - 1) * stride + 1
    zeros = image.new_zeros(sizes)
    return torch.slice_scatter(zeros, image, dimension, 0, sizes[dimension], stride)


def _repeated(values: Sequence[int], rank: int) -> list[int]:
    return list(values) * rank if len(values) == 1 else list(values)
