"""Patches of images as columns, `F.unfold`, and their sums, `F.fold`, one spatial dimension after the other.

Taps come in blocks of as many as the stride: those of one block are neighbours that no two patches share, so
that a block of all patches is the signal itself, shifted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from iree.winograd.dialect.algebra.ceil_div import ceil_div

_PAD = torch.ops.aten.constant_pad_nd.default


def unfold(
    image: Any, kernel: Sequence[int], dilation: Sequence[int], padding: Sequence[int], stride: Sequence[int]
) -> Any:
    """`aten.im2col`: N x C x H x W to N x (C taps) x patches; N may be missing."""
    if image.dim() == 3:
        return unfold(image.unsqueeze(0), kernel, dilation, padding, stride).squeeze(0)
    batch, channels = image.shape[:2]
    rows = _patches(image, 2, kernel[0], dilation[0], padding[0], stride[0])
    # N x C x taps x patches x W
    columns = _patches(rows, 4, kernel[1], dilation[1], padding[1], stride[1])
    patches = columns.shape[3] * columns.shape[5]
    ordered = columns.permute(0, 1, 2, 4, 3, 5)
    return ordered.reshape(batch, channels * math.prod(kernel), patches)


def fold(
    columns: Any,
    size: Sequence[int],
    kernel: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Any:
    """`aten.col2im`: N x (C taps) x patches to N x C x H x W, sums where they overlap; N may be missing."""
    if columns.dim() == 2:
        return fold(columns.unsqueeze(0), size, kernel, dilation, padding, stride).squeeze(0)
    counts = [
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, d, p, s in zip(size, kernel, dilation, padding, stride, strict=True)
    ]
    channels = columns.shape[1] // math.prod(kernel)
    image = columns.reshape(columns.shape[0], channels, *kernel, *counts).permute(0, 1, 2, 4, 3, 5)
    image = _summed(image, 4, size[1], dilation[1], padding[1], stride[1])
    return _summed(image, 2, size[0], dilation[0], padding[0], stride[0])


def _patches(image: Any, dimension: int, taps: int, dilation: int, padding: int, stride: int) -> Any:
    """`dimension` as two, taps and patches."""
    size, extent = image.shape[dimension], dilation * (taps - 1) + 1
    count = (size + 2 * padding - extent) // stride + 1
    blocks = ceil_div(extent, stride)
    read = (count + blocks - 1) * stride
    image = _padded(image, dimension, padding, read - padding - size)
    parts = [
        image.narrow(dimension, block * stride, count * stride).unflatten(dimension, (count, stride))
        for block in range(blocks)
    ]
    patches = torch.cat(parts, dimension + 1).transpose(dimension, dimension + 1)
    return patches.narrow(dimension, 0, extent)[(slice(None),) * dimension + (slice(None, None, dilation),)]


def _summed(patches: Any, dimension: int, size: int, dilation: int, padding: int, stride: int) -> Any:
    """What `_patches` took apart, overlapping elements summed."""
    taps, count = patches.shape[dimension : dimension + 2]
    if dilation > 1:
        # Zeros between the taps.
        spread = _padded(patches.unsqueeze(dimension + 1), dimension + 1, 0, dilation - 1)
        patches = spread.flatten(dimension, dimension + 1)
    blocks = ceil_div(dilation * (taps - 1) + 1, stride)
    patches = _padded(patches, dimension, 0, blocks * stride - patches.shape[dimension])
    total = None
    for block in range(blocks):
        part = patches.narrow(dimension, block * stride, stride).transpose(dimension, dimension + 1)
        signal = part.flatten(dimension, dimension + 1)
        # The sum's elements are those of the image, from the first behind the padding on.
        low = block * stride - padding
        signal = _padded(signal, dimension, low, size - low - count * stride)
        total = signal if total is None else total + signal
    return total


def _padded(tensor: Any, dimension: int, low: int, high: int) -> Any:
    if not low and not high:
        return tensor
    return _PAD(tensor, [0, 0] * (tensor.dim() - 1 - dimension) + [low, high])
