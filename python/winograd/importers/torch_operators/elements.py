"""Functions of single elements that torch-mlir or IREE has no code for."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

_LOG10_OF_2 = math.log10(2)


def remainder_by_number(tensor: Any, divisor: float) -> Any:
    """`aten.fmod.Scalar`: torch-mlir knows that by a tensor."""
    if not tensor.is_floating_point():
        return NotImplemented
    return torch.fmod(tensor, torch.full((), divisor, dtype=tensor.dtype, device=tensor.device))


def difference(minuend: Any, subtrahend: Any, *, alpha: Any = 1) -> Any:
    """`aten.sub.Tensor` of a number and a tensor: torch-mlir has no numbers there that are sizes."""
    if isinstance(minuend, torch.Tensor):
        return NotImplemented
    return minuend + (subtrahend if alpha == 1 else subtrahend * alpha).neg()


def copysign(tensor: Any, signs: Any) -> Any:
    """`aten.copysign.Tensor` of `signs` that may be zeros of either sign; NaN counts as positive."""
    is_negative = (signs < 0) | ((signs == 0) & (signs.reciprocal() < 0))
    return torch.where(is_negative, -tensor.abs(), tensor.abs())


def log10(tensor: Any) -> Any:
    """`aten.log10` to a rounding or two: IREE's calls a function of C's library, which it doesn't link."""
    return torch.log2(tensor) * _LOG10_OF_2


def extremum_without_nan(compare: Callable[..., Any], tensor: Any, other: Any) -> Any:
    """`aten.fmax` or `fmin` by `torch.ge` or `le`, of shapes that torch-mlir doesn't broadcast."""
    return torch.where(compare(tensor, other) | torch.isnan(other), tensor, other)


def rounded_once(
    operator: Any, of_single: Callable[..., Any] | None, tensor: Any, *arguments: Any, **settings: Any
) -> Any:
    """A function of half precision in f32, as torch computes it; `of_single` of other types.

    torch-mlir would write it in several operations, of which each is rounded.
    """
    if tensor.dtype in (torch.float16, torch.bfloat16):
        return operator(tensor.float(), *arguments, **settings).to(tensor.dtype)
    return NotImplemented if of_single is None else of_single(tensor, *arguments, **settings)
