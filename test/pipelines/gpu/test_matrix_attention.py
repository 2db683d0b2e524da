"""Attention on NVIDIA's matrix units: on a GPU where there is one, elsewhere by what its text says.

The text of kernels is interpreted, with matrix units that truncate. How fast they are, nothing here tells.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import iree.winograd
import numpy as np
import numpy.typing as npt
import pytest
import torch
from attention_program import SCALE, Between, Heads, MaskedHeads, PixelsToTokens, RoundedHeads, attended
from iree.winograd.compiling.program import compile
from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.gpu.schedules import attention_fit
from ptx_interpreter import Kernel
from ptxas import spilled_bytes
from torch import nn
from wide import wide, wide_combinations

Array = npt.NDArray[Any]
Case = tuple[int, int, int, int]
"""Images, heads, tokens, channels of a head."""

ARCHITECTURE = "sm_90a"


def text_of(
    model: nn.Module, inputs: Sequence[Array], folder: Path, architecture: str = ARCHITECTURE
) -> tuple[str, str]:
    """The text of the kernel of attention, and its name."""
    flags = [f"--iree-hal-dump-executable-files-to={folder}"]
    imported = iree.winograd.import_torch(model, *map(torch.from_numpy, inputs))
    compile(imported, target=f"cuda:{architecture}", strict=True, flags=flags)
    (text,) = (path.read_text() for path in folder.glob("*.ptx"))
    found = re.search(r"\.entry (winograd_\w*attention\w+)\(", text)
    assert found is not None
    return text, found[1]


def emulated(
    model: nn.Module, inputs: Sequence[Array], shape: tuple[int, ...], queries: int, folder: Path
) -> Array:
    """The result, by all workgroups, each of so many queries of a head."""
    text, name = text_of(model, inputs, folder)
    result = np.full(shape, np.nan, np.float32)
    batch, tokens = re.findall(r"attention_(\d+)x(\d+)x", name)[0]
    workgroups = _workgroups(ceil_div(int(tokens), queries), int(batch))
    Kernel.parsed(text, name).run([*inputs, result], workgroups)
    return result


def _workgroups(blocks: int, batch: int) -> Iterator[tuple[int, int]]:
    return ((block, head) for head in range(batch) for block in range(blocks))


def of_heads(x: Array, heads: int) -> Array:
    """Queries, keys and values: 3 x images x heads x tokens x channels."""
    images, tokens, _ = x.shape
    return x.astype(np.float64).reshape(images, tokens, 3, heads, -1).transpose(2, 0, 3, 1, 4)


def side_by_side(heads: Array) -> Array:
    images, count, tokens, channels = heads.shape
    return heads.swapaxes(1, 2).reshape(images, tokens, count * channels)


def errors(result: Array, expected: Array) -> float:
    return float(np.sqrt(np.square(result - expected).mean()))


@pytest.mark.parametrize("case", [(1, 1, 77, 20), *wide([(1, 2, 40, 7), (1, 1, 64, 40), (1, 1, 20, 128)])])
def test_errors_are_those_of_multiply_adds(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images, heads, tokens, channels = case
    x = np.random.default_rng(0).standard_normal((images, tokens, 3 * heads * channels), np.float32)
    expected = side_by_side(attended(*of_heads(x, heads))[0])
    found = {}
    for warps in (0, 4):
        monkeypatch.setattr(attention_fit, "MOST_WARPS", warps)
        queries = min(64, 16 * ceil_div(tokens, 16)) if warps else 16
        folder = tmp_path / f"{warps}"
        found[warps] = emulated(Heads(heads), [x], expected.shape, queries, folder)
    of_multiply_adds, of_matrix_units = (errors(each, expected) for each in found.values())
    assert of_matrix_units <= 1.5 * of_multiply_adds < 1e-6


@pytest.mark.parametrize("type_", [torch.float16, *wide([torch.bfloat16])], ids=str)
def test_half_numbers_are_multiplied_once(type_: torch.dtype, tmp_path: Path) -> None:
    """Scores are as exact as of fp32; weights are rounded to TF32, which has as many bits as f16."""
    heads, tokens, channels = 2, 77, 20
    x = np.random.default_rng(0).standard_normal((1, tokens, 3 * heads * channels), np.float32)
    x = torch.from_numpy(x).to(type_).float().numpy()
    # What IREE rounds, and widens again, is in one buffer with what is rounded.
    pool = np.concatenate([np.zeros(64 * ceil_div(2 * x.size, 64) // 4, np.float32), x.reshape(-1)])
    text, name = text_of(RoundedHeads(heads, type_), [x], tmp_path)
    result = np.full((1, tokens, heads * channels), np.nan, np.float32)
    Kernel.parsed(text, name).run([pool, result], _workgroups(2, heads))
    # Of a block of 32 keys by 24 channels, in eights: scores, and products with values.
    assert text.count("mma.sync") == 2 * (32 // 8) * (24 // 8)
    queries, keys, values = of_heads(x, heads)
    expected, bound = map(side_by_side, attended(queries, keys, values))
    rounding = 2.0**-11 * side_by_side(attended(queries, keys, np.abs(values))[0])
    assert (np.abs(result - expected) <= bound + 1.01 * rounding).all()


@pytest.mark.parametrize("safe", [True, *wide([False])])
def test_queries_that_no_key_has_a_score_for(safe: bool, tmp_path: Path) -> None:
    x = np.random.default_rng(0).uniform(-2, -1, (1, 40, 3 * 2 * 8)).astype(np.float32)
    x[0, 5, :8] = np.inf
    result = emulated(Heads(2, safe=safe), [x], (1, 40, 2 * 8), 48, tmp_path)
    lost, x[0, 5, :8] = result[0, 5, :8].copy(), -1
    assert (lost == 0).all() if safe else np.isnan(lost).all()
    expected, bound = map(side_by_side, attended(*of_heads(x, 2)))
    is_right = np.abs(result - expected) <= bound
    is_right[0, 5, :8] = True
    assert is_right.all()


@pytest.mark.parametrize("lowest", [-100.0, *wide([-np.inf, float(np.finfo(np.float32).min)])])
def test_masked_attention(lowest: float, tmp_path: Path) -> None:
    """A bias of each head, which hides most keys; of one query all: that attends to all alike, or to none."""
    generator = np.random.default_rng(0)
    x = generator.standard_normal((1, 49, 3 * 2 * 12), np.float32)
    bias = generator.standard_normal((2, 49, 49), np.float32)
    bias[generator.uniform(size=bias.shape) > 0.4] = lowest
    bias[1, 7] = lowest
    result = emulated(MaskedHeads(2), [x, bias], (1, 49, 24), 64, tmp_path)
    exact = torch.softmax(torch.from_numpy(bias[1, 7].astype(np.float64)), -1)
    assert np.isnan(result[0, 7, 12:]).all() == bool(exact.isnan().all())
    added = np.where(bias < -1000, -np.inf, bias.astype(np.float64))
    added[1, 7] = 0.0
    expected, bound = map(side_by_side, attended(*of_heads(x, 2), added))
    is_right = np.abs(result - expected) <= bound
    if lowest < -1000:
        # What is left of the scores beside so large a number is nothing.
        is_right[0, 7, 12:] = np.isinf(lowest) or np.allclose(
            result[0, 7, 12:], of_heads(x, 2)[2][0, 1].mean(0), atol=1e-6
        )
    assert is_right.all()


@pytest.mark.parametrize(
    ("tokens", "channels"),
    wide_combinations(
        [
            ((70, 77), (40, 40)),
            ((5, 33), (24, 72)),
            ((100, 2), (16, 16)),
            ((17, 64), (160, 8)),
            ((9, 16), (64, 64)),
        ]
    ),
)
def test_keys_of_others(tokens: tuple[int, int], channels: tuple[int, int], tmp_path: Path) -> None:
    """A single block of keys, and results of fewer or more channels."""
    (rows, columns), (reduction, width) = tokens, channels
    generator = np.random.default_rng(0)
    shapes = (2, rows, reduction), (2, columns, reduction), (2, columns, width)
    inputs = [generator.standard_normal(shape, np.float32) for shape in shapes]
    queries = min(64, 16 * ceil_div(rows, 16))
    result = emulated(Between(), inputs, (2, rows, width), queries, tmp_path)
    expected, bound = attended(*(each.astype(np.float64) for each in inputs))
    assert (np.abs(result - expected) <= bound).all()


@pytest.mark.parametrize("size", wide([(6, 7), (5, 13)]))
def test_tokens_that_are_neighbours(size: tuple[int, int], tmp_path: Path) -> None:
    tokens = size[0] * size[1]
    x = np.random.default_rng(0).standard_normal((2, 3 * 20, *size), np.float32)
    queries = min(64, 16 * ceil_div(tokens, 16))
    result = emulated(PixelsToTokens(), [x], (2, tokens, 20), queries, tmp_path)
    split = x.astype(np.float64).reshape(2, 3, 20, -1).transpose(1, 0, 3, 2)
    expected, bound = attended(*split)
    assert (np.abs(result - expected) <= bound).all()


@pytest.mark.parametrize(
    ("case", "architecture"),
    [
        ((32, 3, 197, 64), ARCHITECTURE),
        *wide_combinations(
            [
                ((32, 3, 197, 64), "sm_80"),
                *(((2, 8, 256, channels), ARCHITECTURE) for channels in (32, 40, 80, 128, 160)),
                *(((2, 8, 77, channels), ARCHITECTURE) for channels in (32, 80, 128)),
                ((2, 8, 77, 127), ARCHITECTURE),
            ]
        ),
    ],
)
def test_spills_no_registers(case: Case, architecture: str, tmp_path: Path) -> None:
    images, heads, tokens, channels = case
    x = np.zeros((images, tokens, 3 * heads * channels), np.float32)
    text, name = text_of(Heads(heads), [x], tmp_path, architecture)
    assert "mma.sync.aligned.m16n8k8" in text
    assert spilled_bytes(tmp_path, architecture)[name] == 0


@pytest.mark.matrix_units
@pytest.mark.parametrize(
    "case",
    [(2, 3, 197, 64), (1, 2, 77, 20), (9, 8, 130, 16), (2, 8, 256, 128), (1, 3, 64, 7), (1, 8, 1024, 80)],
)
def test_attention_of_heads(case: Case, gpu_target: str, gpu_device: str) -> None:
    images, heads, tokens, channels = case
    x = np.random.default_rng(0).standard_normal((images, tokens, 3 * heads * channels), np.float32)
    imported = iree.winograd.import_torch(Heads(heads), torch.from_numpy(x))
    compiled = bytes(compile(imported, target=gpu_target, strict=True))
    result = np.asarray(iree.winograd.load(compiled, gpu_device)(x))
    expected, bound = map(side_by_side, attended(*of_heads(x, heads)))
    assert (np.abs(result - expected) <= bound).all()
    queries, keys, values = map(torch.from_numpy, of_heads(x, heads).astype(np.float32))
    by_torch = side_by_side((torch.softmax((queries * SCALE) @ keys.mT, -1) @ values).numpy())
    assert errors(result, expected) <= 1.5 * max(errors(by_torch, expected), 1e-7)
