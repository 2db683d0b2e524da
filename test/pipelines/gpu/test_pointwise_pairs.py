"""Two pointwise layers in a row by one kernel, as an interpreter of PTX computes them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import iree.winograd
import numpy as np
import numpy.typing as npt
import pytest
import torch
from agreement import expect_within
from iree.winograd.pipelines.gpu.choice import pointwise_pair_schedules
from iree.winograd.pipelines.gpu.kernels.matrix_products.split_results import bound_of
from iree.winograd.pipelines.gpu.packing.pointwise_pair import PointwisePairPacking
from iree.winograd.pipelines.gpu.packing.split import SplitPacking
from iree.winograd.pipelines.gpu.schedules.pointwise_pair import PointwisePairSchedule
from iree.winograd.pipelines.problems.output_bound import OutputBound
from ptx_interpreter import Kernel
from ptxas import spilled_bytes
from torch import nn
from wide import wide_combinations

Array = npt.NDArray[np.float64]

TYPES = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8, torch.float32: 0.0}
"""Unit roundoffs of what is stored, beside that of sums."""
NAMES = {torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: None}
SPLIT_ROUNDOFF = 2.0**-22
"""Of numbers that are split."""
SUM_ROUNDOFF = 2.0**-23
"""Of matrix units, which truncate when they add."""
ACTIVATION_ROUNDINGS = 16
"""Of an activation, relative to its number: `test_epilogue_functions.py` has those of each function."""
STEEPEST = 1.13
"""Slope of GELU; others' are less."""


class Mlp(nn.Module):
    """Two pointwise layers with an activation between them, a scale and a residual behind them."""

    def __init__(
        self,
        channels: int,
        between: int,
        outputs: int,
        activation: Callable[[torch.Tensor], torch.Tensor],
        *,
        is_residual: bool = False,
    ) -> None:
        super().__init__()
        self.widening, self.narrowing = nn.Linear(channels, between), nn.Linear(between, outputs)
        self.activation, self.is_residual = activation, is_residual
        self.scale = nn.Parameter(torch.rand(outputs) + 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.narrowing(self.activation(self.widening(x)))
        return x + y * self.scale if self.is_residual else y

    def exact(self, x: torch.Tensor) -> tuple[Array, Array]:
        """The result in float64, and a bound of the error of one whose sums are in float32.

        What is between the layers is rounded to half precision, and the result, or split: by the scale of a
        bound it errs by 2^-23 of the largest sum of a pixel's magnitudes (`winograd-store-split`).
        """
        roundoff = TYPES[x.dtype]
        first, second = self.widening.weight.double(), self.narrowing.weight.double()
        bias, image = self.widening.bias.double(), x.double()
        sums = image @ first.T + bias
        of_sums = (image.shape[-1] + 2) * SUM_ROUNDOFF * (image.abs() @ first.abs().T + bias.abs())
        between = self.activation(sums)
        of_between = STEEPEST * of_sums + ACTIVATION_ROUNDINGS * SUM_ROUNDOFF * (sums.abs() + of_sums)
        if x.dtype is torch.float32:
            magnitudes = image.abs() @ first.abs().T + bias.abs()
            of_split = SPLIT_ROUNDOFF * between.abs() + 2.0**-23 * magnitudes.amax(-1, keepdim=True)
            of_between = of_between + SPLIT_ROUNDOFF * magnitudes + of_split
        # f16 has multiples of 2^-24 below 2^-14.
        smallest = 0.0 if x.dtype is torch.float32 else 2.0**-25
        of_between = of_between + roundoff * (between.abs() + of_between) + smallest
        terms = SUM_ROUNDOFF * (first.shape[0] + 2)
        magnitudes = (between.abs() + of_between) @ second.abs().T + self.narrowing.bias.double().abs()
        bound = of_between @ second.abs().T + terms * magnitudes
        expected = between @ second.T + self.narrowing.bias.double()
        if self.is_residual:
            scale = self.scale.double()
            expected, bound = image + expected * scale, bound * scale + 4 * SUM_ROUNDOFF * magnitudes
            bound = bound + SUM_ROUNDOFF * image.abs()
        rounded = bound + roundoff * (expected.abs() + bound) + smallest
        return expected.detach().numpy(), rounded.detach().numpy()


def bits(tensor: torch.Tensor) -> npt.NDArray[Any]:
    """As a kernel reads them."""
    integers = {2: torch.int16, 4: torch.int32}[tensor.element_size()]
    return tensor.detach().contiguous().view(integers).numpy()


def places(source: str) -> list[tuple[int, int]]:
    """Of each argument of a kernel the buffer that it is in, and the bytes of that before it."""
    numbers = dict(re.findall(r"(%c\d+) = arith.constant (\d+) : index", source))
    moved = dict(re.findall(r"(%\d+) = arith.addi %\d+, (%c\d+) : index", source))
    spans = re.findall(r" binding\((\d)\) alignment\(64\) offset\((%\d+)\)", source)
    found = dict.fromkeys((int(b), int(numbers[moved[o]]) if o in moved else 0) for b, o in spans)
    return list(found)


def run(model: Mlp, x: torch.Tensor, schedule: PointwisePairSchedule, folder: Path, patch: Any) -> Array:
    """What the kernel of both layers computes."""
    packed: list[npt.NDArray[np.float32]] = []
    pack, pack_narrowing = SplitPacking.pack_filters, PointwisePairPacking.pack_narrowing

    def keeping(pack: Callable[..., Any]) -> Callable[..., Any]:
        def packing(self: Any, filters: npt.NDArray[Any]) -> Any:
            packed.append(pack(self, filters))
            return packed[-1]

        return packing

    patch.setattr(SplitPacking, "pack_filters", keeping(pack))
    patch.setattr(PointwisePairPacking, "pack_narrowing", keeping(pack_narrowing))
    patch.setattr(pointwise_pair_schedules, "EXPECTED_GAIN", np.inf)
    patch.setattr(pointwise_pair_schedules, "pointwise_pair_schedule", lambda *_: schedule)
    flags = [f"--iree-hal-dump-executable-files-to={folder}"]
    imported = iree.winograd.import_torch(model, x)
    iree.winograd.compile(imported, target="cuda:sm_90a", strict=True, flags=flags)
    (text,) = (path.read_text() for path in folder.glob("*.ptx"))
    (name,) = re.findall(r"\.entry (winograd_pair_\w+)\(", text)
    assert "winograd_direct" not in text and "wgmma.mma_async" in text
    (source,) = (path.read_text() for path in folder.glob("configured_*pair*.mlir"))
    of_arguments = places(source)
    # The first layer's filters and the second one's; the latter are packed by the same function.
    filters = [packed[0], packed[-1]]
    bias, scale = model.narrowing.bias, [model.scale] if model.is_residual else []
    bounds: list[npt.NDArray[np.float32]] = []
    if x.dtype is torch.float32:
        magnitudes = (
            model.widening.weight.detach().abs().sum(1).max(),
            model.widening.bias.detach().abs().max(),
        )
        bounds.append(bound_of(OutputBound(*(1.01 * float(each) for each in magnitudes), 0.0)))
        # The scale is a part of filters.
        bias, scale = bias * model.scale if scale else bias, []
    shift = model.widening.bias, bias, *scale
    read = [*filters, *bounds, *(each.detach().float().numpy() for each in shift)]
    image = bits(x)
    result = np.full((*x.shape[:-1], model.narrowing.out_features), -1, image.dtype)
    constants = np.zeros(1 << 22, np.uint8)
    buffers = {of_arguments[0][0]: image, of_arguments[-1][0]: result}
    placed = [each for each in of_arguments if each[0] not in buffers]
    for (buffer, place), array in zip(placed, read, strict=True):
        raw = np.ascontiguousarray(array).view(np.uint8).ravel()
        constants[place : place + raw.size] = raw
        buffers[buffer] = constants
    kernel = Kernel.parsed(text, name)
    arguments = [buffers[number] for number in range(len(buffers))]
    kernel.run(arguments, ((i,) for i in range(schedule.walking_workgroups)))
    return torch.from_numpy(result).view(x.dtype).double().numpy()


@pytest.mark.parametrize(
    ("channels", "between", "outputs", "activation", "type_", "warpgroups"),
    [
        (32, 128, 32, nn.functional.gelu, torch.float16, 2),
        (48, 64, 48, nn.functional.gelu, torch.float32, 2),
        *wide_combinations(
            [
                (96, 192, 96, nn.functional.silu, torch.bfloat16, 3),
                (80, 128, 24, nn.functional.relu, torch.float16, 2),
                (16, 192, 192, nn.functional.hardswish, torch.float16, 3),
                (96, 96, 96, nn.functional.silu, torch.float32, 2),
            ]
        ),
    ],
)
def test_pairs_agree_with_float64(
    channels: int,
    between: int,
    outputs: int,
    activation: Callable[[torch.Tensor], torch.Tensor],
    type_: torch.dtype,
    warpgroups: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two workgroups have several blocks of pixels each, the last of which isn't full."""
    torch.manual_seed(0)
    is_residual = channels == outputs
    model = Mlp(channels, between, outputs, activation, is_residual=is_residual).to(type_)
    pixels = warpgroups * 64 * 3 + 70
    x = torch.randn(2, pixels // 2, channels).to(type_)
    schedule = PointwisePairSchedule(warpgroups, 2, 2, NAMES[type_])
    result = run(model, x, schedule, tmp_path, monkeypatch)
    expect_within(result, *model.exact(x))
    # Beside the loop: a thread has 160 registers where there are three warpgroups.
    assert max(spilled_bytes(tmp_path, "sm_90a").values()) <= 160


def test_split_pixels_of_all_magnitudes_stay_accurate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of zeros, very small and very large ones, and of no numbers; with the bias of each of them."""
    torch.manual_seed(0)
    model, x = Mlp(32, 64, 32, nn.functional.relu), torch.randn(1, 70, 32)
    for number, exponent in enumerate((-149, -126, -100, -20, 20, 100, 118)):
        x[0, number] = (x[0, number].double() * 2.0**exponent).float()
    x[0, 7] = 0
    x[0, 8, 3], x[0, 9, 5], x[0, 10, 0] = torch.nan, torch.inf, -torch.inf
    result = run(model, x, PointwisePairSchedule(2, 2, 1, None), tmp_path, monkeypatch)
    is_number = torch.isfinite(x).all(-1).numpy()
    expected, bound = model.exact(x)
    assert np.isnan(result[~is_number]).all()
    expect_within(result[is_number], expected[is_number], bound[is_number])


@pytest.mark.wide
def test_split_pixels_far_below_the_bound_stay_accurate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is one number that hardly counts in the bound, or numbers whose products cancel each other."""
    torch.manual_seed(0)
    model, x = Mlp(32, 64, 32, nn.functional.relu), torch.zeros(1, 64, 32)
    with torch.no_grad():
        model.widening.bias *= 2.0**-60
        model.widening.weight[:, 5] *= 2.0**-16
        model.widening.weight[:, 7] = -model.widening.weight[:, 6]
    x[0, :32, 5] = torch.linspace(1, 2, 32)
    x[0, 32:, 6] = x[0, 32:, 7] = torch.linspace(3, 5, 32)
    x[0, 32:, 8] = 2.0**-18
    result = run(model, x, PointwisePairSchedule(2, 2, 1, None), tmp_path, monkeypatch)
    expect_within(result, *model.exact(x))


@pytest.mark.parametrize(
    ("images", "tokens", "channels", "type_", "is_one"),
    [
        (32, 784, 192, torch.float16, True),
        *wide_combinations(
            [
                (32, 3136, 96, torch.bfloat16, True),
                (32, 3136, 96, torch.float32, True),
                (1, 3136, 96, torch.float32, False),
                (1, 3136, 96, torch.float16, False),
                (32, 196, 384, torch.float16, False),
            ]
        ),
    ],
)
def test_pairs_are_chosen_where_they_take_less_time(
    images: int, tokens: int, channels: int, type_: torch.dtype, is_one: bool, tmp_path: Path
) -> None:
    """Those of ConvNeXt-T: many pixels and few channels. Nothing is spilled but beside the loop."""
    model = Mlp(channels, 4 * channels, channels, nn.functional.gelu, is_residual=True).to(type_)
    imported = iree.winograd.import_torch(model, torch.zeros(images, tokens, channels, dtype=type_))
    flags = [f"--iree-hal-dump-executable-files-to={tmp_path}"]
    iree.winograd.compile(imported, target="cuda:sm_90a", strict=True, flags=flags)
    spilled = spilled_bytes(tmp_path, "sm_90a")
    assert any("winograd_pair" in name for name in spilled) == is_one
    assert max(spilled.values()) <= 160
