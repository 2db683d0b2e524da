"""Attention as torch's kernels for GPUs have it, in operators that are compiled here.

Of their results only what computes anything is one here: seeds are of dropout, which there is none of.
"""

from __future__ import annotations

import math
from typing import Any

import torch

_aten = torch.ops.aten


def efficient(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_bias: torch.Tensor | None,
    compute_log_sumexp: bool,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
) -> Any:
    """`aten._scaled_dot_product_efficient_attention`, which torch.compile has where tensors are f32."""
    if dropout_p or compute_log_sumexp:
        return NotImplemented
    return _output(query, key, value, attn_bias, is_causal, scale), None, None, None


def flash(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> Any:
    """`aten._scaled_dot_product_flash_attention`, which torch.compile has in half precision."""
    if dropout_p or return_debug_mask:
        return NotImplemented
    output = _output(query, key, value, None, is_causal, scale)
    # The operator doesn't say whether anything reads them; what nothing reads isn't computed.
    sums = _log_sums(query, key, is_causal, scale)
    return output, sums, None, None, query.shape[2], key.shape[2], None, None, None


def cudnn(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_bias: torch.Tensor | None,
    compute_log_sumexp: bool,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> Any:
    """`aten._scaled_dot_product_cudnn_attention`, which later GPUs have in half precision."""
    if dropout_p or compute_log_sumexp or return_debug_mask:
        return NotImplemented
    output = _output(query, key, value, attn_bias, is_causal, scale)
    return output, None, None, None, query.shape[2], key.shape[2], None, None, None


def _output(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: torch.Tensor | None,
    is_causal: bool,
    scale: float | None,
) -> torch.Tensor:
    """In single precision, as those kernels compute, and as they leave it in memory: tokens before heads."""
    single = [each.to(torch.float32) for each in (query, key, value)]
    mask = bias if bias is None or bias.dtype == torch.bool else bias.to(torch.float32)
    output, _ = _aten._scaled_dot_product_attention_math.default(
        *single, mask, 0.0, is_causal, scale=scale, enable_gqa=query.shape[1] != key.shape[1]
    )
    # Rounded last, so that what computes attention can write it where it lies.
    tokens_first: torch.Tensor = output.transpose(1, 2).contiguous().to(query.dtype)
    return tokens_first.transpose(1, 2)


def _log_sums(query: torch.Tensor, key: torch.Tensor, is_causal: bool, scale: float | None) -> torch.Tensor:
    """The logarithm of the sum of the exponentials of each query's scores."""
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = query.to(torch.float32) @ key.to(torch.float32).transpose(-2, -1) * factor
    if is_causal:
        allowed = torch.ones(scores.shape[-2:], dtype=torch.bool, device=query.device).tril()
        scores = scores.masked_fill(~allowed, -math.inf)
    return torch.logsumexp(scores, -1)
