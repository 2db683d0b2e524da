"""Attention between inputs and results that programs have otherwise, and what it is in float64."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from iree.winograd.passes.match.products.attention import AttentionProblem
from iree.winograd.passes.match.products.batch_matmul import BatchProduct, Matrices
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

UNIT_ROUNDOFF = 2.0**-24
SCALE = 0.25
KEYS_AT_ONCE = 32

Exact = npt.NDArray[np.float64]


class Heads(nn.Module):
    """Attention of heads that are slices of one tensor; `safe` as torch's own function has it."""

    def __init__(self, heads: int, *, safe: bool = False) -> None:
        super().__init__()
        self.heads, self.safe = heads, safe

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        split = x.unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        queries, keys, values = split.unbind(0)
        if self.safe:
            mixed = scaled_dot_product_attention(queries, keys, values, scale=SCALE)
        else:
            mixed = torch.softmax((queries * SCALE) @ keys.transpose(-2, -1), -1) @ values
        return mixed.transpose(1, 2).flatten(2)


class Projected(nn.Module):
    """Attention of a head to a text, whose queries, keys and values are layers of their own."""

    def __init__(self, channels: int, text_channels: int, width: int) -> None:
        super().__init__()
        self.to_q, self.to_k, self.to_v = (
            nn.Linear(each, width) for each in (channels, text_channels, text_channels)
        )

    def forward(self, x: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        queries, keys, values = self.to_q(x), self.to_k(text), self.to_v(text)
        return torch.softmax((queries @ keys.mT) * SCALE, -1) @ values


class MaskedHeads(nn.Module):
    """The same, with a bias, heads x tokens x tokens, that images share; or keys hidden, tokens x tokens."""

    def __init__(self, heads: int, hidden: torch.Tensor | None = None) -> None:
        super().__init__()
        self.heads, self.hidden = heads, hidden

    def forward(self, x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        split = x.unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        queries, keys, values = split.unbind(0)
        scores = (queries * SCALE) @ keys.transpose(-2, -1)
        scores = scores + bias if self.hidden is None else scores.masked_fill(self.hidden, -torch.inf)
        return (torch.softmax(scores, -1) @ values).transpose(1, 2).flatten(2)


class RoundedHeads(nn.Module):
    """The same, or another attention, of numbers that are rounded to half precision before."""

    def __init__(self, heads: int, type_: torch.dtype, attention: nn.Module | None = None) -> None:
        super().__init__()
        self.attention, self.type = attention or Heads(heads), type_

    def forward(self, x: torch.Tensor, *masks: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.attention(x.to(self.type).to(torch.float32), *masks)
        return result


class Between(nn.Module):
    """Attention of queries to the keys and values of others, images x tokens x channels each."""

    def forward(self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return torch.softmax((queries @ keys.mT) * SCALE, -1) @ values


class HalfBetween(nn.Module):
    """The same in half precision, with sums in f32; `safe` as torch's own function has it."""

    def __init__(self, *, safe: bool = True) -> None:
        super().__init__()
        self.safe = safe

    def forward(self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        if self.safe:
            return scaled_dot_product_attention(queries, keys, values, scale=SCALE)
        scores = (queries.float() @ keys.float().mT) * SCALE
        return (torch.softmax(scores, -1) @ values.float()).to(values.dtype)


class Pixels(nn.Module):
    """Pixels of an image, channels first, that attend to each other: tokens are neighbours in memory."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        queries, keys, values = x.flatten(2).chunk(3, 1)
        weights = torch.softmax((queries.transpose(1, 2) @ keys) * SCALE, -1)
        return (values @ weights.transpose(1, 2)).unflatten(2, x.shape[2:])


class PixelsToTokens(nn.Module):
    """The same, whose result is channels last."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        queries, keys, values = x.flatten(2).chunk(3, 1)
        weights = torch.softmax((queries.transpose(1, 2) @ keys) * SCALE, -1)
        return weights @ values.transpose(1, 2)


def of_tokens(heads: int, tokens: int, channels: int) -> AttentionProblem:
    """Attention of tokens to each other."""
    rows, columns = (Matrices(0, (), *strides) for strides in ((channels, 1), (1, channels)))
    scores = BatchProduct(heads, tokens, tokens, channels, rows, columns, rows)
    mixtures = BatchProduct(heads, tokens, channels, tokens, rows, rows, rows)
    return AttentionProblem(scores, mixtures, safe=True)


def attended(queries: Exact, keys: Exact, values: Exact, bias: Exact | float = 0.0) -> tuple[Exact, Exact]:
    """Attention of tokens x channels in float64, and a bound of the error of one in float32."""
    u, (tokens, channels) = UNIT_ROUNDOFF, keys.shape[-2:]
    scores = SCALE * queries @ keys.swapaxes(-1, -2) + bias
    exponentials = np.exp(scores - scores.max(-1, keepdims=True))
    weights = exponentials / exponentials.sum(-1, keepdims=True)
    # Sums of products, and factors. The largest score's error counts as well.
    of_scores = 2 * (channels + 4) * u * (SCALE * np.abs(queries) @ np.abs(keys).swapaxes(-1, -2)).max()
    # A bias is added with one rounding, the largest score's as well.
    added = np.where(np.isfinite(scores), np.abs(scores), 0).max() if np.any(bias) else 0.0
    of_scores += 2 * u * added
    # Vulkan's exponential of a difference is within 3 + 2 * |difference| units of the last place, which are
    # two roundings each, as are the differences'. There is one for each block of keys, as it is scaled.
    largest = (scores.max(-1) - scores.min(-1, where=np.isfinite(scores), initial=scores.max())).max()
    of_exponentials = (tokens / KEYS_AT_ONCE + 2) * (8 + 5 * largest) * u
    # Both sums, and a quotient within 2.5 units.
    relative = of_scores + of_exponentials + (2 * tokens + 8) * u
    # Of 4096 tokens, sums may be off by half a rounding of f16.
    assert relative < 2.0**-9
    return weights @ values, 1.01 * relative * (weights @ np.abs(values))
