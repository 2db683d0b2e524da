"""Tensors that are read otherwise than by their sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from iree.winograd.errors import ModelImportError
from torch._prims_common import make_contiguous_strides_for, suggest_memory_format
from torch.fx.experimental.symbolic_shapes import statically_known_true


def contiguous_view(
    tensor: torch.Tensor, size: Sequence[Any], stride: Sequence[Any], storage_offset: Any = None
) -> Any:
    """`aten.as_strided` where it is a view, which may have dynamic sizes, as in group normalization."""
    is_view = (
        tensor.is_contiguous()
        and storage_offset in (None, tensor.storage_offset())
        and statically_known_true(math.prod(size) == tensor.numel())
        and tuple(stride) == make_contiguous_strides_for(tuple(size))
    )
    return torch.ops.aten.view.default(tensor, size) if is_view else NotImplemented


def row_major_view(
    tensor: torch.Tensor, size: Sequence[Any], stride: Sequence[Any], storage_offset: Any = None
) -> Any:
    """`contiguous_view` of an exported program, whose strides may not be those of the model.

    Raises `ModelImportError` where the order of the elements in memory isn't that of the dimensions: torch
    traces some operators on channels-last images as if they were, and drops copies that make them so.
    """
    if not tensor.is_contiguous():
        raise ModelImportError("aten.as_strided reads a tensor in another order than that of its dimensions")
    return contiguous_view(tensor, size, stride, storage_offset)


def diagonal_scatter(
    tensor: torch.Tensor, source: torch.Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> torch.Tensor:
    """`aten.diagonal_scatter`: `tensor` with `source`, whose last dimension it is, on a diagonal."""
    matrix = tensor.movedim((dim1, dim2), (-2, -1))
    rows, columns = (torch.arange(size, device=tensor.device) for size in matrix.shape[-2:])
    is_written = columns - rows.unsqueeze(1) == offset
    # Where it begins at the first row there is an element for each row, else for each column.
    along = -1 if offset >= 0 else -2
    more = matrix.shape[-2 if offset >= 0 else -1] - source.shape[-1]
    spread = torch.ops.aten.constant_pad_nd.default(source, [0, more], 0).unsqueeze(along)
    return torch.where(is_written, spread, matrix).movedim((-2, -1), (dim1, dim2))


def roll(tensor: torch.Tensor, shifts: Sequence[Any], dims: Sequence[int] = ()) -> Any:
    """`aten.roll` as the two halves of each dimension, the other way round.

    Of channels-last images torch's own rule for its type says that it is row-major, which it isn't: what
    follows would be traced for another order of its elements than it has.
    """
    if not all(isinstance(size, int) for size in (*tensor.shape, *shifts)):
        return NotImplemented
    if not dims:
        # All elements as one row.
        return roll(tensor.reshape(-1), shifts, [0]).view(tensor.shape)
    rolled = tensor
    for shift, dim in zip(shifts, dims, strict=True):
        size = rolled.shape[dim]
        begin = -shift % size if size else 0
        if begin:
            halves = [rolled.narrow(dim, begin, size - begin), rolled.narrow(dim, 0, begin)]
            rolled = torch.ops.aten.cat.default(halves, dim)
    if rolled is tensor:
        return tensor.clone()
    return rolled.contiguous(memory_format=suggest_memory_format(tensor))
