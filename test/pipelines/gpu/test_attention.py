"""Attention by one kernel: from where heads are in memory, whatever the number of tokens."""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import Mock

import iree.winograd
import numpy as np
import pytest
import torch
from attention_program import Heads, MaskedHeads, Pixels, Projected, attended, of_tokens
from iree.winograd.compiling.program import compile
from iree.winograd.passes.match.products.attention import AttentionProblem
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.gpu.lowerings import attention as attention_lowering
from iree.winograd.pipelines.gpu.schedules.attention import MultiplyAddAttentionSchedule
from iree.winograd.pipelines.gpu.schedules.attention_fit import attention_schedule, waves_by_sharing
from iree.winograd.pipelines.machines.amd import amd_chip, amd_family
from torch import nn
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


class Projections(nn.Module):
    """Attention of tokens to each other, and to a text, behind a convolution of them."""

    def __init__(self, channels: int, text_channels: int, width: int) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(channels, channels, 1, bias=False)
        nn.init.dirac_(self.convolution.weight)
        self.to_itself = Projected(channels, channels, width)
        self.to_text = Projected(channels, text_channels, width)

    def forward(self, x: torch.Tensor, text: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.convolution(x.mT).mT
        return self.to_itself(x, x), self.to_text(x, text)


@pytest.mark.wide
def test_projections_of_the_same_rows_are_one_product(
    gpu_target: str, gpu_device: str, tmp_path: Path
) -> None:
    """Their layers choose elements and add numbers that leave sums exact: the rest is attention's error."""
    torch.manual_seed(0)
    model = Projections(24, 40, 16)
    inputs = [torch.randint(-64, 65, shape) / 32 for shape in ((2, 77, 24), (2, 30, 40))]
    for layer in (each for each in model.modules() if isinstance(each, nn.Linear)):
        chosen = torch.randperm(layer.in_features)[: layer.out_features]
        layer.weight.data = torch.eye(layer.in_features)[chosen]
        layer.bias.data = torch.randint(-8, 9, layer.bias.shape) / 8
    report = tmp_path / "report.json"
    imported = iree.winograd.import_torch(model, *inputs)
    compiled = bytes(compile(imported, target=gpu_target, strict=True, report=report))
    names = [each["names"] for each in json.loads(report.read_text())["layers"]]
    merged = [
        [f"to_itself.to_{each}" for each in "qkv"] + ["to_text.to_q"],
        [f"to_text.to_{each}" for each in "kv"],
    ]
    assert sorted(each for each in names if len(each) > 1) == merged
    results = iree.winograd.load(compiled, gpu_device)(*(each.numpy() for each in inputs))
    exact = model.double()
    x, text = (each.double() for each in inputs)
    for attention, keyed, result in zip((exact.to_itself, exact.to_text), (x, text), results, strict=True):
        layers = (attention.to_q(x), attention.to_k(keyed), attention.to_v(keyed))
        expected, bound = attended(*(each.detach().numpy() for each in layers))
        assert (np.abs(np.asarray(result) - expected) <= bound).all()


_READ_IN_PLACE = MultiplyAddAttentionSchedule(16, shares_queries=False)
_TWO_PARTS, _FOUR_PARTS = (MultiplyAddAttentionSchedule(16, stage_parts=each) for each in (2, 4))
_IN_PLACE_IN_PARTS = MultiplyAddAttentionSchedule(32, shares_queries=False, stage_parts=2)


class SeveralHeads(nn.Module):
    """Attention of two heads each in several tensors."""

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(Heads(2)(x) for x in tensors)


@pytest.mark.parametrize(
    "schedules",
    [
        # Of 14 channels there are no quads.
        {14: _FOUR_PARTS},
        *wide(
            [
                {12: _READ_IN_PLACE, 36: _READ_IN_PLACE, 32: _FOUR_PARTS, 30: _TWO_PARTS},
                {90: _READ_IN_PLACE, 127: _FOUR_PARTS, 96: _IN_PLACE_IN_PARTS},
            ]
        ),
    ],
    ids=lambda schedules: "-".join(map(str, schedules)),
)
def test_schedules_of_amd(
    schedules: dict[int, MultiplyAddAttentionSchedule],
    gpu_target: str,
    gpu_device: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those for which others leave a SIMD no room for a second wave, by channels of a head."""

    def schedule(problem: AttentionProblem, target: GpuTarget) -> MultiplyAddAttentionSchedule:
        return schedules[problem.scores.reduction]

    of_problems = Mock(side_effect=schedule)
    monkeypatch.setattr(attention_lowering, "attention_schedule", of_problems)
    generator = np.random.default_rng(0)
    given = [generator.standard_normal((1, 77, 3 * 2 * each), np.float32) for each in schedules]
    imported = iree.winograd.import_torch(SeveralHeads(), *map(torch.from_numpy, given))
    compiled = bytes(compile(imported, target=gpu_target, strict=True))
    assert {call.args[0].scores.reduction for call in of_problems.mock_calls} == set(schedules)
    for x, result in zip(given, iree.winograd.load(compiled, gpu_device)(*given), strict=True):
        split = x.astype(np.float64).reshape(1, 77, 3, 2, -1).transpose(2, 0, 3, 1, 4)
        expected, bound = (each.swapaxes(1, 2).reshape(result.shape) for each in attended(*split))
        assert (np.abs(np.asarray(result) - expected) <= bound).all()


@pytest.mark.parametrize("channels", [8, 40, 80, 128])
@pytest.mark.parametrize("tokens", [256, 8192])
@pytest.mark.parametrize("architecture", ["rdna2", "rdna3", "rdna4"])
def test_attention_leaves_simds_two_waves_on_rdna(architecture: str, tokens: int, channels: int) -> None:
    family = amd_family(architecture)
    assert family is not None
    target = GpuTarget(1024, 48 << 10, architecture=architecture)
    schedule = attention_schedule(problem := of_tokens(2, tokens, channels), target)
    assert schedule is not None and schedule.shared_memory_bytes(problem) <= target.shared_memory_bytes
    assert waves_by_sharing(schedule, problem, family) >= 2


@pytest.mark.parametrize("channels", [8, 40, 64, 100, 128])
@pytest.mark.parametrize("architecture", ["gfx908", "gfx90a", "gfx942", "gfx950"])
def test_attention_leaves_simds_two_waves_by_sharing(architecture: str, channels: int) -> None:
    """Where there are queries for as many: four threads have one."""
    family, chip = amd_family(architecture), amd_chip(architecture)
    assert family is not None and chip is not None
    tokens = 4 * chip.compute_units * family.simds * 2 * 64 // 4
    schedule = attention_schedule(problem := of_tokens(1, tokens, channels), _amd(architecture))
    assert schedule is not None and waves_by_sharing(schedule, problem, family) >= 2
    # Of few queries each compute unit has at most one workgroup, whatever it has room for.
    few = attention_schedule(of_tokens(1, 64, channels), _amd(architecture))
    assert few is not None and few.queries == 16


def _amd(architecture: str) -> GpuTarget:
    return GpuTarget(1024, (160 if architecture == "gfx950" else 48) << 10, architecture=architecture)


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
