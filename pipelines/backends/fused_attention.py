"""Attention as one kernel of a backend computes it."""

from __future__ import annotations

from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.products.attention import Attention, match_fused

from ..problems.tensor_operations import BatchedAttention
from .backend import Backend


def fused_attention(attention: Attention, backend: Backend, threads: int) -> BatchedAttention | NoMatch:
    """What one kernel computes, in half precision if it takes what the program has so; else why none does."""
    tried: list[NoMatch] = []
    for in_half in (True, False):
        fused = match_fused(attention, in_half=in_half)
        if isinstance(fused, NoMatch):
            return fused
        batched = BatchedAttention(fused, threads)
        reason = backend.misfit(batched)
        if reason is None:
            return batched
        tried.append(NoMatch(attention.operation, reason))
    return tried[-1]
