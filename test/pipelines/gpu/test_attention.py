"""Attention by one kernel: from where heads are in memory, whatever the number of tokens."""

from __future__ import annotations

import iree.winograd
import numpy as np
import pytest
import torch
from attention_program import Heads, MaskedHeads, Pixels, attended
from iree.winograd.compiling.program import compile
from wide import wide

CASES = [(1, 2, 77, 20), *wide([(2, 3, 197, 64), (1, 3, 64, 7), (9, 8, 130, 16)])]
"""Images, heads, tokens, channels of a head."""


@pytest.mark.parametrize("case", CASES)
def test_attention_of_heads(case: tuple[int, int, int, int], gpu_target: str, gpu_device: str) -> None:
    images, heads, tokens, channels = case
    x = np.random.default_rng(0).standard_normal((images, tokens, 3 * heads * channels), np.float32)
    imported = iree.winograd.import_torch(Heads(heads), torch.from_numpy(x))
    compiled = bytes(compile(imported, target=gpu_target, strict=True))
    assert b"winograd_attention" in compiled and b"winograd_softmax" not in compiled
    result = np.asarray(iree.winograd.load(compiled, gpu_device)(x))
    split = x.astype(np.float64).reshape(images, tokens, 3, heads, channels).transpose(2, 0, 3, 1, 4)
    expected, bound = (each.swapaxes(1, 2).reshape(result.shape) for each in attended(*split))
    assert (np.abs(result - expected) <= bound).all()


@pytest.mark.parametrize("safe", wide([True, False]))
def test_queries_that_no_key_has_a_score_for(safe: bool, gpu_target: str, gpu_device: str) -> None:
    x = np.random.default_rng(0).uniform(-2, -1, (1, 40, 3 * 2 * 8)).astype(np.float32)
    x[0, 5, :8] = np.inf
    imported = iree.winograd.import_torch(Heads(2, safe=safe), torch.from_numpy(x))
    compiled = bytes(compile(imported, target=gpu_target, strict=True))
    assert (b"winograd_safe_attention" in compiled) == safe
    result = np.asarray(iree.winograd.load(compiled, gpu_device)(x))
    lost, x[0, 5, :8] = result[0, 5, :8].copy(), -1
    assert (lost == 0).all() if safe else np.isnan(lost).all()
    split = x.astype(np.float64).reshape(1, 40, 3, 2, 8).transpose(2, 0, 3, 1, 4)
    expected, bound = (each.swapaxes(1, 2).reshape(result.shape) for each in attended(*split))
    is_right = np.abs(result - expected) <= bound
    is_right[0, 5, :8] = True
    assert is_right.all()


@pytest.mark.parametrize("is_hidden", [False, *wide([True])])
def test_masked_attention(is_hidden: bool, gpu_target: str, gpu_device: str) -> None:
    """Swin's: a bias of each head that windows share, of 49 tokens; or some keys are hidden."""
    generator = np.random.default_rng(0)
    x = generator.standard_normal((4, 49, 3 * 2 * 12), np.float32)
    bias = generator.standard_normal((2, 49, 49), np.float32)
    hidden = torch.from_numpy(bias[0] > 1) if is_hidden else None
    imported = iree.winograd.import_torch(MaskedHeads(2, hidden), torch.from_numpy(x), torch.from_numpy(bias))
    compiled = bytes(compile(imported, target=gpu_target, strict=True))
    assert b"winograd_masked_attention" in compiled and b"winograd_softmax" not in compiled
    result = np.asarray(iree.winograd.load(compiled, gpu_device)(x, bias))
    split = x.astype(np.float64).reshape(4, 49, 3, 2, 12).transpose(2, 0, 3, 1, 4)
    added = bias.astype(np.float64) if hidden is None else np.where(hidden.numpy(), -np.inf, 0.0)
    expected, bound = (each.swapaxes(1, 2).reshape(result.shape) for each in attended(*split, added))
    assert (np.abs(result - expected) <= bound).all()


@pytest.mark.parametrize("size", wide([(6, 7)]))
def test_tokens_that_are_neighbours(size: tuple[int, int], gpu_target: str, gpu_device: str) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3 * 20, *size), np.float32)
    imported = iree.winograd.import_torch(Pixels(), torch.from_numpy(x))
    compiled = bytes(compile(imported, target=gpu_target, strict=True))
    result = np.asarray(iree.winograd.load(compiled, gpu_device)(x))
    split = x.astype(np.float64).reshape(2, 3, 20, -1).transpose(1, 0, 3, 2)
    expected, bound = (each.swapaxes(1, 2).reshape(result.shape) for each in attended(*split))
    assert (np.abs(result - expected) <= bound).all()


@pytest.mark.parametrize("target", wide(["cuda:sm_80", "hip:gfx942"]))
def test_attention_compiles_for_all_targets(target: str) -> None:
    imported = iree.winograd.import_torch(Heads(3), torch.zeros(1, 197, 3 * 3 * 64))
    assert b"winograd_attention" in bytes(compile(imported, target=target, strict=True))


@pytest.mark.parametrize("channels", wide([192]))
def test_heads_of_many_channels_are_multiplied_by_themselves(channels: int, gpu_target: str) -> None:
    imported = iree.winograd.import_torch(Heads(1), torch.zeros(1, 33, 3 * channels))
    compiled = bytes(compile(imported, target=gpu_target, strict=True))
    assert b"winograd_attention" not in compiled and b"winograd_softmax" in compiled
