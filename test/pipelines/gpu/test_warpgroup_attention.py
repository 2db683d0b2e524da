"""Attention in half precision by warpgroups: what the text of kernels says, as `test_matrix_attention.py`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import iree.winograd
import numpy as np
import numpy.typing as npt
import pytest
import torch
from attention_program import HalfBetween, MaskedHeads, RoundedHeads, attended, of_tokens
from iree.winograd.compiling.program import compile
from iree.winograd.passes.match.products.attention import MaskRows
from iree.winograd.passes.match.products.batch_matmul import Matrices
from iree.winograd.pipelines.gpu.schedules import attention_fit
from iree.winograd.pipelines.gpu.schedules.attention import WarpgroupAttentionSchedule
from iree.winograd.pipelines.gpu.schedules.attention_fit import attention_schedule
from ptx_interpreter import Kernel
from ptxas import spilled_bytes
from scheduled_program import HOPPER
from torch import nn
from wide import wide, wide_combinations

Array = npt.NDArray[Any]
Exact = npt.NDArray[np.float64]

ARCHITECTURE = "sm_90a"
TYPES = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
"""Unit roundoffs."""


def compiled_kernel(model: nn.Module, inputs: Sequence[torch.Tensor], folder: Path) -> tuple[str, str]:
    """The text of the kernel of attention, and its name."""
    flags = [f"--iree-hal-dump-executable-files-to={folder}"]
    imported = iree.winograd.import_torch(model, *inputs)
    compile(imported, target=f"cuda:{ARCHITECTURE}", strict=True, flags=flags)
    (text,) = (path.read_text() for path in folder.glob("*.ptx"))
    found = re.search(r"\.entry (winograd_\w*attention\w+)\(", text)
    assert found is not None and "wgmma.mma_async" in text
    return text, found[1]


def run(text: str, name: str, arguments: Sequence[Array], rows: int, heads: int) -> None:
    kernel = Kernel.parsed(text, name)
    queries = kernel.threads // 2
    kernel.run(arguments, ((block, head) for head in range(heads) for block in range(-(-rows // queries))))


def bits(tensor: torch.Tensor) -> Array:
    """As a kernel reads them."""
    return tensor.view(torch.int16).numpy()


def bound_of(
    queries: Exact, keys: Exact, values: Exact, roundoff: float, added: Exact | float = 0.0
) -> tuple[Exact, Exact]:
    """Attention, and a bound of the error of one whose weights and results are rounded to half precision.

    Weights are at most one when they are rounded, and are divided by a sum of at least one: f16 has multiples
    of 2^-24 below 2^-14.
    """
    expected, bound = attended(queries, keys, values, added)
    magnitude = attended(queries, keys, np.abs(values), added)[0]
    subnormal = 2.0**-25 * (1 + np.abs(values).sum(-2, keepdims=True))
    return expected, bound + 1.01 * roundoff * (magnitude + np.abs(expected)) + subnormal


@pytest.mark.parametrize(
    ("case", "type_", "multiprocessors"),
    [
        ((70, 150, 24, 40), torch.float16, 1),
        *wide_combinations(
            [
                ((130, 77, 40, 40), torch.float16, 1),
                ((200, 130, 24, 64), torch.bfloat16, 1),
                ((130, 200, 80, 80), torch.bfloat16, 1),
                ((40, 140, 160, 160), torch.float16, 132),
                ((16, 8, 8, 64), torch.float16, 132),
            ]
        ),
    ],
)
def test_attention_agrees_with_float64(
    case: tuple[int, int, int, int],
    type_: torch.dtype,
    multiprocessors: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Several blocks of keys, or a part of one; on a single multiprocessor several warpgroups share keys."""
    monkeypatch.setattr(attention_fit, "MULTIPROCESSORS", multiprocessors)
    rows, columns, reduction, width = case
    torch.manual_seed(0)
    inputs = [
        torch.randn(1, 2, count, channels).to(type_)
        for count, channels in ((rows, reduction), (columns, reduction), (columns, width))
    ]
    text, name = compiled_kernel(HalfBetween(), inputs, tmp_path)
    result = torch.full((1, 2, rows, width), torch.nan, dtype=type_)
    run(text, name, [*map(bits, inputs), bits(result)], rows, 2)
    expected, bound = bound_of(*(each.double().numpy() for each in inputs), TYPES[type_])
    assert (np.abs(result.double().numpy() - expected) <= bound).all()


def test_masked_attention_in_half(tmp_path: Path) -> None:
    """A bias of each head, which hides most keys, of one query all but one."""
    torch.manual_seed(0)
    x, bias = torch.randn(1, 49, 3 * 2 * 16).half(), torch.randn(2, 49, 49)
    bias[torch.rand(bias.shape) > 0.4] = -torch.inf
    bias[1, 7, 1:], bias[:, :, 0] = -torch.inf, 0.0
    text, name = compiled_kernel(RoundedHeads(2, x.dtype, MaskedHeads(2)), [x.float(), bias], tmp_path)
    result = np.full((1, 49, 32), np.nan, np.float32)
    run(text, name, [bits(x), bias.numpy(), result], 49, 2)
    split = x.double().numpy().reshape(1, 49, 3, 2, 16).transpose(2, 0, 3, 1, 4)
    expected, bound = (
        each.swapaxes(1, 2).reshape(result.shape)
        for each in bound_of(*split, TYPES[x.dtype], bias.double().numpy())
    )
    assert (np.abs(result - expected) <= bound).all()


@pytest.mark.parametrize("safe", wide([True, False]))
def test_queries_that_no_key_has_a_score_for(safe: bool, tmp_path: Path) -> None:
    inputs = [torch.empty(1, 2, 40, 16).uniform_(-2, -1).half() for _ in range(3)]
    inputs[0][0, 1, 5] = torch.inf
    text, name = compiled_kernel(HalfBetween(safe=safe), inputs, tmp_path)
    result = torch.full((1, 2, 40, 16), -1.0, dtype=torch.float16)
    run(text, name, [*map(bits, inputs), bits(result)], 40, 2)
    lost, inputs[0][0, 1, 5] = result[0, 1, 5].clone(), -1.0
    assert bool((lost == 0).all() if safe else lost.isnan().all())
    expected, bound = bound_of(*(each.double().numpy() for each in inputs), TYPES[torch.float16])
    is_right = np.abs(result.double().numpy() - expected) <= bound
    is_right[0, 1, 5] = True
    assert is_right.all()


@pytest.mark.parametrize(
    ("channels", "tokens"),
    wide_combinations([*((channels, 576) for channels in (40, 64, 80, 128, 160)), (96, 512), (128, 512)]),
)
@pytest.mark.parametrize("multiprocessors", [1, 132])
def test_threads_have_registers(
    multiprocessors: int, channels: int, tokens: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with blocks of 128 keys, of which the last one is no part."""
    monkeypatch.setattr(attention_fit, "MULTIPROCESSORS", multiprocessors)
    inputs = [torch.zeros(1, 8, tokens, channels, dtype=torch.bfloat16) for _ in range(3)]
    _, name = compiled_kernel(HalfBetween(), inputs, tmp_path)
    assert spilled_bytes(tmp_path, ARCHITECTURE)[name] == 0


@pytest.mark.parametrize(
    ("heads", "tokens", "channels", "chosen"),
    [
        (32, 1024, 128, (2, 128, 1)),
        (32, 1000, 128, (2, 64, 1)),
        (96, 196, 64, (1, 64, 3)),
        (96, 1024, 64, (2, 64, 2)),
        (48, 196, 64, (2, 64, 2)),
        (16, 1024, 80, (2, 128, 1)),
        (16, 4096, 40, (4, 64, 1)),
    ],
)
def test_the_fastest_of_those_measured_is_chosen(
    heads: int, tokens: int, channels: int, chosen: tuple[int, int, int]
) -> None:
    """Warpgroups, keys of a block, workgroups of a multiprocessor on an H200."""
    problem = replace(of_tokens(heads, tokens, channels), half="f16")
    schedule = attention_schedule(problem, HOPPER)
    assert isinstance(schedule, WarpgroupAttentionSchedule)
    assert (schedule.warpgroups, schedule.keys, schedule.resident) == chosen
    if schedule.keys == 128 and channels > 80:
        masked = replace(problem, masks=(MaskRows(Matrices(0, (), tokens, 1)),))
        schedule = attention_schedule(masked, HOPPER)
        assert schedule is not None and schedule.keys == 64


@pytest.mark.matrix_units
@pytest.mark.parametrize(
    ("case", "type_"),
    [
        ((4096, 4096, 40, 40), torch.float16),
        ((1024, 1024, 80, 80), torch.bfloat16),
        ((256, 256, 160, 160), torch.float16),
        ((1000, 77, 40, 40), torch.float16),
        ((197, 197, 64, 64), torch.bfloat16),
        ((130, 200, 24, 128), torch.float16),
    ],
)
def test_attention_on_a_gpu(
    case: tuple[int, int, int, int], type_: torch.dtype, gpu_target: str, gpu_device: str
) -> None:
    rows, columns, reduction, width = case
    torch.manual_seed(0)
    inputs = [
        torch.randn(1, 2, count, channels).to(type_)
        for count, channels in ((rows, reduction), (columns, reduction), (columns, width))
    ]
    imported = iree.winograd.import_torch(HalfBetween(), *inputs)
    compiled = bytes(compile(imported, target=gpu_target, strict=True))
    result = torch.as_tensor(iree.winograd.load(compiled, gpu_device)(*inputs)).double().numpy()
    expected, bound = bound_of(*(each.double().numpy() for each in inputs), TYPES[type_])
    assert (np.abs(result - expected) <= bound).all()
