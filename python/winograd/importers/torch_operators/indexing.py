"""Elements that are written by a mask, without counting them, or along a dimension."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true


def index_put(tensor: Any, indices: Sequence[Any | None], values: Any, accumulate: bool = False) -> Any:
    """`aten.index_put` by one mask, of values that are the same for all elements that it selects.

    torch-mlir makes a list of the mask's elements, of unknown size, and may not end.
    """
    masks = [each for each in indices if each is not None]
    if len(masks) != 1 or masks[0].dtype not in (torch.bool, torch.uint8):
        return NotImplemented
    (mask,) = masks
    leading = next(number for number, each in enumerate(indices) if each is not None)
    trailing = tensor.dim() - leading - mask.dim()
    if values.dim() > trailing:
        counted, kept = values.dim() - trailing - 1, values.shape[values.dim() - trailing :]
        if not statically_known_true(values.shape[counted] == 1):
            return NotImplemented
        # What was one dimension of selected elements is all those of the mask.
        values = values.reshape(*values.shape[:counted], *[1] * mask.dim(), *kept)
    mask = mask.to(torch.bool).reshape(*mask.shape, *[1] * trailing)
    values = values.to(tensor.dtype)
    return torch.where(mask, tensor + values if accumulate else values, tensor)


def scatter(
    operator: Callable[..., Any],
    tensor: Any,
    dim: int,
    index: Any,
    source: Any,
    *reduction: str,
    **options: bool,
) -> Any:
    """`aten.scatter` and its kin along a dimension that is counted from the first.

    torch-mlir reads beyond a list where it is counted from the last, and the process ends.
    """
    if dim >= 0:
        return NotImplemented
    return operator(tensor, dim + max(tensor.dim(), 1), index, source, *reduction, **options)
