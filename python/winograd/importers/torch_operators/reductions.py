"""Sums and norms over dimensions that torch-mlir or IREE computes badly."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch


def linear(rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> Any:
    """`aten.linear` of all rows at once, however they lie in memory.

    Where they aren't contiguous, as behind attention over channels, torch multiplies every image by a copy of
    the weights. In half precision the sum with a bias is rounded once, as torch does.
    """
    if 0 in weight.shape:
        result = rows.new_zeros((*rows.shape[:-1], weight.shape[0]))
        return result if bias is None else result + bias
    if bias is not None and rows.dtype in (torch.float16, torch.bfloat16) and not _is_open(rows):
        return _rounded_once(rows, weight, bias)
    if rows.dim() < 3:
        return NotImplemented
    products = torch.ops.aten.mm.default(rows.reshape(-1, rows.shape[-1]), weight.t())
    result = products.view(*rows.shape[:-1], weight.shape[0])
    return result if bias is None else result + bias


def _is_open(tensor: torch.Tensor) -> bool:
    """Whether a size is known only in a call: IREE multiplies such rows, on GPUs in half precision."""
    return not all(isinstance(size, int) for size in tensor.shape)


def _rounded_once(rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> Any:
    """`aten.linear` in half precision. torch-mlir would round the product, and the sum once more."""
    products = torch.ops.aten.mm.default(rows.float().reshape(-1, rows.shape[-1]), weight.t().float())
    sums = (products + bias.float()).to(rows.dtype)
    return sums.view(*rows.shape[:-1], weight.shape[0])


def mean(
    tensor: torch.Tensor,
    dim: Sequence[int] | None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Any:
    """`aten.mean.dim` one dimension after the other: IREE sums all elements of a mean in one running sum.

    Of an image of 56 x 56 that has a rounding error as large as a convolution's, where eager has none to
    speak of, and networks that normalize means for attention enlarge it.
    """
    if dtype is not None or dim is None or len(dim) < 2:
        return NotImplemented
    for dimension in sorted((each % tensor.dim() for each in dim), reverse=True):
        tensor = torch.ops.aten.mean.dim(tensor, [dimension], keepdim)
    return tensor


def var_mean(
    tensor: torch.Tensor,
    dim: Sequence[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> Any:
    """`aten.var_mean.correction` of no elements, and of one without dimensions.

    Of the first, which are no numbers, torch-mlir has a variance of 0; by the second the process ended.
    """
    if not tensor.dim():
        return torch.ops.aten.var_mean.correction(tensor.unsqueeze(0), [0], correction=correction)
    places = list(dim or range(tensor.dim()))
    sizes = [tensor.shape[each] for each in places]
    if not any(isinstance(size, int) and size == 0 for size in sizes):
        return NotImplemented
    nothing = torch.full_like(torch.ops.aten.sum.dim_IntList(tensor, places, keepdim), math.nan)
    return nothing, nothing.clone()


def of_number(
    operator: Callable[..., Any], decomposition: Callable[..., Any] | None, tensor: Any, dim: int, *more: Any
) -> Any:
    """`operator` over the one dimension that a tensor without any is taken to have; else `decomposition`.

    torch-mlir doesn't end there.
    """
    if not tensor.dim():
        return operator(tensor.unsqueeze(0), 0, *more).squeeze(0)
    return NotImplemented if decomposition is None else decomposition(tensor, dim, *more)


def cumsum(tensor: Any, dim: int, *, dtype: torch.dtype | None = None) -> Any:
    """`aten.cumsum` of half precision in f32, as torch adds: torch-mlir would round each sum on the way."""
    summed = tensor.dtype if dtype is None else dtype
    if summed not in (torch.float16, torch.bfloat16):
        return NotImplemented
    return torch.ops.aten.cumsum.default(tensor.to(summed).float(), dim).to(summed)


def logcumsumexp(tensor: Any, dim: int) -> Any:
    """`aten.logcumsumexp` as sums of all that isn't behind an element, each relative to its own largest."""
    if not tensor.dim():
        return tensor.clone()
    rows = tensor.movedim(dim, -1)
    places = torch.arange(rows.shape[-1], device=tensor.device)
    before = torch.where(places <= places[:, None], rows.unsqueeze(-2), -math.inf)
    return before.logsumexp(-1).movedim(-1, dim)


def kthvalue(tensor: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """`aten.kthvalue` by sorting: IREE refuses what torch-mlir makes of it."""
    if not tensor.dim():
        return NotImplemented
    values, indices = tensor.sort(dim)
    both = (each.narrow(dim, k - 1, 1) for each in (values, indices))
    return tuple(each if keepdim else each.squeeze(dim) for each in both)


def sum_of_all(tensor: Any, *, dtype: torch.dtype | None = None) -> Any:
    """`aten.sum` of all elements one dimension after the other.

    IREE fails to make vectors of the sum of products in which one factor is broadcast.
    """
    if tensor.dim() < 2 or 0 in tensor.shape:
        return NotImplemented
    for _ in range(tensor.dim()):
        tensor = torch.ops.aten.sum.dim_IntList(tensor, [-1], dtype=dtype)
    return tensor


def mean_of_all(tensor: Any, *, dtype: torch.dtype | None = None) -> Any:
    """`aten.mean` of all elements, as their sum is computed."""
    if tensor.dim() < 2 or 0 in tensor.shape or not all(isinstance(each, int) for each in tensor.shape):
        return NotImplemented
    total = sum_of_all(tensor, dtype=dtype)
    return total / tensor.numel()
