"""Sums, means and maxima of rows of a table."""

from __future__ import annotations

import math
from typing import Any

import torch

_SUM, _MEAN, _MAX = range(3)


def embedding_bag(
    table: Any,
    indices: Any,
    offsets: Any,
    scale_grad_by_freq: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """`aten.embedding_bag` but for plain sums of bags of which only the beginnings are given.

    torch-mlir leaves weights out, and has no means, maxima or ends of the last bag.

    Only the first result is that of torch, which no function of torch's returns more of.
    """
    is_padded = padding_idx is not None and padding_idx >= 0
    if mode == _SUM and per_sample_weights is None and not is_padded and not include_last_offset:
        return NotImplemented
    rows = table[indices]
    members = _members(indices, offsets, include_last_offset)
    if is_padded:
        members = members & (indices != padding_idx)
    counts = members.sum(1)
    if mode == _MAX:
        maxima = torch.where(members[:, :, None], rows, -math.inf).amax(1)
        result = torch.where(counts[:, None] > 0, maxima, 0)
    else:
        if per_sample_weights is not None:
            rows = rows * per_sample_weights[:, None]
        result = torch.where(members[:, :, None], rows, 0).sum(1)
    if mode == _MEAN:
        result = result / counts.clamp(min=1)[:, None].to(result.dtype)
    return result, torch.zeros_like(indices), counts, torch.zeros_like(offsets)


def _members(indices: Any, offsets: Any, include_last_offset: bool) -> Any:
    """Which of `indices` are in which bag; each bag ends where the next begins."""
    positions = torch.arange(indices.shape[0], device=indices.device)
    if include_last_offset:
        starts, ends = offsets[:-1], offsets[1:]
    else:
        starts = offsets
        ends = torch.cat([offsets[1:], torch.full_like(offsets[:1], indices.shape[0])])
    return (positions >= starts[:, None]) & (positions < ends[:, None])
