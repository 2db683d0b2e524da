"""Padding by amounts that may be negative, which take elements away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

_PAD = torch.ops.aten.constant_pad_nd.default


def constant_pad(tensor: Any, pad: Sequence[int], value: float = 0) -> Any:
    """`aten.constant_pad_nd` where an amount is negative: what is taken away, then what is added.

    torch-mlir lowers all amounts to one `tensor.pad`, and negative ones to sizes and offsets that are wrong.
    """
    if all(amount >= 0 for amount in pad):
        return NotImplemented
    for index in range(len(pad) // 2):
        dimension = tensor.dim() - 1 - index
        low, high = (max(0, -amount) for amount in pad[2 * index : 2 * index + 2])
        if low or high:
            tensor = tensor.narrow(dimension, low, tensor.shape[dimension] - low - high)
    added = [max(0, amount) for amount in pad]
    return _PAD(tensor, added, value) if any(added) else tensor.clone()
