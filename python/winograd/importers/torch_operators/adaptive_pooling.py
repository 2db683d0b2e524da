"""Maxima and means of windows that part an image, also unevenly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from iree.winograd.dialect.algebra.ceil_div import ceil_div
from torch.fx.experimental.symbolic_shapes import statically_known_true


def adaptive_max_pool(rank: int, image: Any, output_size: Sequence[int]) -> Any:
    """`aten.adaptive_max_pool2d` or `3d`, of images without a batch too; torch-mlir takes even windows only.

    Each window's elements are gathered, those of smaller ones repeated.
    """
    sizes = image.shape[-rank:]
    if any(statically_known_true(size == 0) for size in sizes) or 0 in output_size:
        return NotImplemented
    table = _windows(sizes, output_size, image.device)
    elements = image.flatten(-rank)[..., table]
    maxima, places = elements.max(-1)
    indices = table.expand(elements.shape).gather(-1, places.unsqueeze(-1)).squeeze(-1)
    shape = (*image.shape[:-rank], *output_size)
    return maxima.reshape(shape), indices.reshape(shape)


def adaptive_average_pool(
    by_torch: Callable[..., Any] | None, rank: int, image: Any, output_size: Sequence[int]
) -> Any:
    """`aten.adaptive_avg_pool1d` to `3d` of open sizes; others `by_torch`, which looks at what divides them.

    One dimension after the other: of each window so many elements are gathered as the longest may have, and
    those that lie behind a shorter one left out of its sum.
    """
    if not any(isinstance(size, torch.SymInt) for size in image.shape[-rank:]) or 0 in output_size:
        return NotImplemented if by_torch is None else by_torch(image, output_size)
    for dimension, count in zip(range(image.dim() - rank, image.dim()), output_size, strict=True):
        size = image.shape[dimension]
        if count == 1:
            image = image.mean(dimension, keepdim=True)
        elif not statically_known_true(size == count):
            image = _means(image, dimension, count)
    return image


def _means(image: Any, dimension: int, count: int) -> Any:
    """The mean of each of `count` windows along a dimension."""
    size = image.shape[dimension]
    starts, ends = _bounds(size, count, image.device)
    positions = starts[:, None] + torch.arange(_longest(size, count), device=image.device)
    trailing = [1] * (image.dim() - 1 - dimension)
    is_inside = (positions < ends[:, None]).view(count, -1, *trailing)
    index = (*[slice(None)] * dimension, positions.clamp(max=size - 1))
    read = image[index]
    sums = torch.where(is_inside, read, 0.0).sum(dimension + 1)
    return sums / (ends - starts).to(image.dtype).view(count, *trailing)


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
    starts, ends = _bounds(size, count, device)
    offsets = torch.arange(_longest(size, count), device=device)
    return torch.minimum(starts[:, None] + offsets, ends[:, None] - 1)


def _bounds(size: int, count: int, device: torch.device) -> tuple[Any, Any]:
    """The first element of each window, and the first behind it."""
    places = torch.arange(count, device=device)
    starts = torch.div(places * size, count, rounding_mode="floor")
    return starts, torch.div(places * size + size + count - 1, count, rounding_mode="floor")


def _longest(size: int, count: int) -> int:
    """Elements of the longest window, or of open sizes what none has more of."""
    if not isinstance(size, int):
        return size // count + 2
    return max(ceil_div((index + 1) * size, count) - index * size // count for index in range(count))
