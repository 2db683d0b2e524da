"""Maxima of windows that part an image, also unevenly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from iree.winograd.dialect.algebra.ceil_div import ceil_div


def adaptive_max_pool(rank: int, image: Any, output_size: Sequence[int]) -> Any:
    """`aten.adaptive_max_pool2d` or `3d`, of images without a batch too; torch-mlir takes even windows only.

    Each window's elements are gathered, those of smaller ones repeated.
    """
    sizes = image.shape[-rank:]
    if not all(isinstance(size, int) and size > 0 for size in sizes) or 0 in output_size:
        return NotImplemented
    table = _windows(sizes, output_size, image.device)
    elements = image.flatten(-rank)[..., table]
    maxima, places = elements.max(-1)
    indices = table.expand(elements.shape).gather(-1, places.unsqueeze(-1)).squeeze(-1)
    shape = (*image.shape[:-rank], *output_size)
    return maxima.reshape(shape), indices.reshape(shape)


def _windows(sizes: Sequence[int], output_size: Sequence[int], device: torch.device) -> Any:
    """The flat indices of the elements of each window, of all windows: a matrix."""
    indices = torch.zeros((1, 1), dtype=torch.int64, device=device)
    for size, count in zip(sizes, output_size, strict=True):
        spans = _spans(size, count, device)
        # First all windows, then all elements of each.
        indices = indices[:, None, :, None] * size + spans[None, :, None, :]
        indices = indices.flatten(2).flatten(0, 1)
    return indices


def _spans(size: int, count: int, device: torch.device) -> Any:
    """The elements of each of `count` windows in one dimension, the last repeated to equal lengths."""
    bounds = [(index * size // count, ceil_div((index + 1) * size, count)) for index in range(count)]
    longest = max(end - start for start, end in bounds)
    places = torch.arange(count, device=device)
    starts = torch.div(places * size, count, rounding_mode="floor")
    ends = torch.div(places * size + size + count - 1, count, rounding_mode="floor")
    offsets = torch.arange(longest, device=device)
    return torch.minimum(starts[:, None] + offsets, ends[:, None] - 1)
