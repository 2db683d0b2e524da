"""Tensors that are read otherwise than by their sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from iree.winograd.errors import ModelImportError
from torch._prims_common import make_contiguous_strides_for, suggest_memory_format
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.overrides import TorchFunctionMode


def contiguous_view(
    tensor: torch.Tensor, size: Sequence[Any], stride: Sequence[Any], storage_offset: Any = None
) -> Any:
    """`aten.as_strided` where it is a view, which may have dynamic sizes.

    Group normalization is traced with it, and pooling of channels-last images to one pixel, whose strides
    along dimensions of one element are others.
    """
    is_view = (
        tensor.is_contiguous()
        and storage_offset in (None, tensor.storage_offset())
        and statically_known_true(math.prod(size) == tensor.numel())
        and all(
            step == contiguous or statically_known_true(length == 1)
            for step, contiguous, length in zip(
                stride, make_contiguous_strides_for(tuple(size)), size, strict=True
            )
        )
    )
    return torch.ops.aten.view.default(tensor, size) if is_view else NotImplemented


def strided_view(
    tensor: torch.Tensor, size: Sequence[Any], stride: Sequence[Any], storage_offset: Any = None
) -> Any:
    """`contiguous_view`, or what `aten.as_strided` reads of a tensor in the order that its elements lie in.

    Raises `ModelImportError` where elements share memory, or there are others between them.
    """
    view = contiguous_view(tensor, size, stride, storage_offset)
    if view is not NotImplemented or not all(isinstance(each, int) for each in (*tensor.shape, *size)):
        return view
    in_memory = tensor.permute(sorted(range(tensor.dim()), key=tensor.stride, reverse=True))
    begin = int(tensor.storage_offset() if storage_offset is None else storage_offset)
    last = begin + sum(step * (length - 1) for step, length in zip(stride, size, strict=True))
    # Memory beyond is another tensor's.
    if tensor.storage_offset() or not in_memory.is_contiguous() or last >= tensor.numel():
        raise ModelImportError("aten.as_strided reads a tensor that isn't all of what lies in memory")
    elements = torch.full(tuple(size), begin, device=tensor.device)
    for dim, (step, length) in enumerate(zip(stride, size, strict=True)):
        along = [length if each == dim else 1 for each in range(len(size))]
        elements = elements + step * torch.arange(length, device=tensor.device).view(along)
    return in_memory.reshape(-1).index_select(0, elements.reshape(-1)).view(tuple(size))


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


class RollInMemoryFormat(TorchFunctionMode):
    """While torch traces a model, has `roll` take tensors of other orders than row-major apart.

    By torch's own rule for its type what it returns is row-major, and a copy that makes it so would be
    dropped. See `roll`.
    """

    def __torch_function__(
        self,
        function: Any,
        types: Sequence[type],
        arguments: Sequence[Any] = (),
        options: Mapping[str, Any] | None = None,
    ) -> Any:
        options = options or {}
        if function in (torch.roll, torch.Tensor.roll):
            result = self._rolled(*arguments, **options)
            if result is not NotImplemented:
                return result
        return function(*arguments, **options)

    @staticmethod
    def _rolled(input: torch.Tensor, shifts: Any, dims: Any = ()) -> Any:
        if input.is_contiguous():
            return NotImplemented
        shifts, dims = ([each] if isinstance(each, int) else each for each in (shifts, dims))
        return roll(input, shifts, dims or ()) if len(shifts) == len(dims or ()) else NotImplemented


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
