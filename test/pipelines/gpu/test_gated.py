"""Products whose kernels compute what becomes of the halves of their results."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import iree.winograd
import numpy as np
import numpy.typing as npt
import pytest
import torch
from agreement import expect_within
from half_pointwise import choosing
from iree.winograd.pipelines.emission.work import Sizes
from iree.winograd.pipelines.gpu.choice import streamed_cost
from iree.winograd.pipelines.gpu.kernels.direct.streamed import StreamedKernel
from iree.winograd.pipelines.gpu.packing.split import SplitPacking
from iree.winograd.pipelines.gpu.packing.streamed import StreamedPacking
from iree.winograd.pipelines.gpu.schedules.warpgroup import WarpgroupSchedule
from ptx_interpreter import Kernel
from ptxas import spilled_bytes
from torch import nn
from wide import wide, wide_combinations

EPSILON = 2.0**-24
ACTIVATION_ROUNDINGS = 16
"""Of an activation, relative to its number: `test_epilogue_functions.py` has those of each function."""
STEEPEST = 1.13
"""Slope of GELU; SiLU's is less."""

Array = npt.NDArray[np.float64]


class Gated(nn.Module):
    """A pointwise layer, half of whose channels multiply an activation of the others."""

    def __init__(
        self,
        channels: int,
        filters: int,
        activation: Callable[[torch.Tensor], torch.Tensor],
        *,
        gate_is_first: bool = False,
    ) -> None:
        super().__init__()
        self.layer = nn.Conv2d(channels, 2 * filters, 1)
        self.activation, self.gate_is_first = activation, gate_is_first

    def halves(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The numbers, and their gates."""
        first, second = self.layer(x).chunk(2, dim=1)
        return (second, first) if self.gate_is_first else (first, second)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        value, gate = self.halves(x)
        return value * self.activation(gate)


def exact(model: Gated, x: torch.Tensor) -> tuple[Array, Array]:
    """The result in float64, and a bound of the error of sums in float32 and all that follows."""
    model, x = model.double(), x.double()
    value, gate = (each.detach().numpy() for each in model.halves(x))
    weight, bias = model.layer.weight, model.layer.bias
    terms = x.shape[1] + 2
    model.layer.weight, model.layer.bias = (nn.Parameter(each.abs()) for each in (weight, bias))
    of_value, of_gate = (terms * EPSILON * each.detach().numpy() for each in model.halves(x.abs()))
    model.layer.weight, model.layer.bias = weight, bias
    activated = model.activation(torch.from_numpy(gate)).numpy()
    of_activated = STEEPEST * of_gate + ACTIVATION_ROUNDINGS * EPSILON * (np.abs(gate) + of_gate)
    bound = of_value * (np.abs(activated) + of_activated) + np.abs(value) * of_activated
    return value * activated, bound + 2 * EPSILON * np.abs(value * activated)


@pytest.mark.parametrize(
    ("filters", "activation", "gate_is_first"),
    [
        (40, nn.functional.gelu, False),
        *wide_combinations([(24, nn.functional.silu, True), (66, nn.functional.gelu, True)]),
    ],
)
def test_halves_are_multiplied_by_the_kernel_that_computes_them(
    filters: int,
    activation: Callable[[torch.Tensor], torch.Tensor],
    gate_is_first: bool,
    gpu_target: str,
    gpu_device: str,
) -> None:
    torch.manual_seed(0)
    model = Gated(16, filters, activation, gate_is_first=gate_is_first).eval()
    x = torch.randn(2, 16, 13, 14)
    imported = iree.winograd.import_torch(model, x)
    compiled = bytes(iree.winograd.compile(imported, target=gpu_target, strict=True))
    assert b"winograd_gated" in compiled
    result = iree.winograd.load(compiled, gpu_device)(x.numpy())
    expect_within(result, *exact(model, x))


@pytest.mark.parametrize("of_half", [False, *wide([True])])
def test_halves_of_streamed_pixels_are_multiplied(
    of_half: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of f32 and of f16, both of which are split; by the interpreter of PTX."""
    torch.manual_seed(0)
    model, x = Gated(16, 40, nn.functional.silu).eval(), torch.randn(2, 16, 5, 7)
    if of_half:
        model, x = model.half(), x.half()
    packings, packed, pack = [], [], StreamedPacking.pack_filters

    def packing(self: StreamedPacking, filters: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
        packings.append(self)
        packed.append(pack(self, filters))
        return packed[-1]

    monkeypatch.setattr(StreamedPacking, "pack_filters", packing)
    # Of so small an image other kernels are predicted to be faster.
    monkeypatch.setattr(streamed_cost, "BEGIN_SECONDS", {16: 0.0, 32: 0.0})
    flags = [f"--iree-hal-dump-executable-files-to={tmp_path}"]
    iree.winograd.compile(
        iree.winograd.import_torch(model, x), target="cuda:sm_90a", strict=True, flags=flags
    )
    (text,) = (path.read_text() for path in tmp_path.glob("*.ptx"))
    kernel = Kernel.by_stage(text)["gated"]
    expected, bound = (each.transpose(0, 2, 3, 1) for each in exact(model, x))
    # One buffer has both constants, the bias first, of columns that alternate.
    bias = model.layer.bias.detach().numpy().astype(np.float32).reshape(2, -1).T.ravel()
    constants = np.concatenate([bias, packed[-1].ravel()])
    image = np.ascontiguousarray(x.numpy().transpose(0, 2, 3, 1))
    # The result lies behind the image.
    memory = np.full(image.size + expected.size, np.nan, image.dtype)
    grid = [each.known or 0 for each in StreamedKernel(packings[-1]).workgroups(Sizes.of_batch(2))]
    kernel.run([image, constants, memory], iter(itertools.product(*map(range, grid))))
    result = memory[image.size :].reshape(expected.shape)
    rounding = np.zeros(())
    if of_half:
        # Of numbers, sigmoids, what these are of gates, and results; of gates before.
        value, gate = (np.abs(each.detach().numpy()) for each in model.halves(x.double()))
        of_gates = (STEEPEST * value * gate).transpose(0, 2, 3, 1)
        rounding = 1.01 * 2.0**-11 * (4 * np.abs(expected) + of_gates)
    # Numbers that are split have 22 bits.
    expect_within(result.astype(np.float64), expected, 4 * bound + rounding)


@pytest.mark.parametrize(
    ("store_width", "filters"), [(8, 176), *wide_combinations([(None, 192), (None, 176)])]
)
def test_halves_of_mapped_images_are_multiplied(
    store_width: int | None, filters: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of results are half as wide as blocks, the first of which have had the map in their place.

    Of 352 columns the last block isn't full.
    """
    torch.manual_seed(0)
    model, x = Gated(72, filters, nn.functional.silu).eval().half(), torch.randn(2, 72, 12, 9).half()
    schedule = WarpgroupSchedule(
        128,
        192,
        products=1,
        multiplied_type="f16",
        stages=2,
        walking_workgroups=2,
        box_rows=128,
        alternating_warpgroups=2,
        store_width=store_width,
    )
    packings, packed, pack = [], [], SplitPacking.pack_filters

    def packing(self: SplitPacking, filters: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
        packings.append(self)
        packed.append(pack(self, filters))
        return packed[-1]

    monkeypatch.setattr(SplitPacking, "pack_filters", packing)
    flags = [f"--iree-hal-dump-executable-files-to={tmp_path}"]
    imported = iree.winograd.import_torch(model, x)
    with choosing(monkeypatch) as choose:
        choose(schedule)
        iree.winograd.compile(imported, target="cuda:sm_90a", strict=True, flags=flags)
    (text,) = (path.read_text() for path in tmp_path.glob("*.ptx"))
    kernel = Kernel.by_stage(text)["gated"]
    assert "cp.async.bulk.tensor" in text
    assert ("st.global.v2.b32" in text) == (store_width is not None)
    expected, bound = (each.transpose(0, 2, 3, 1) for each in exact(model, x))
    bias = model.layer.bias.detach().numpy().astype(np.float32).reshape(2, -1).T.ravel()
    constants = np.concatenate([bias, packed[-1].ravel()])
    image = np.ascontiguousarray(x.numpy().transpose(0, 2, 3, 1))
    memory = np.full(image.size + expected.size, np.nan, image.dtype)
    kernel.run([image, constants, memory], ((i,) for i in range(2)))
    result = memory[image.size :].reshape(expected.shape)
    value, gate = (np.abs(each.detach().numpy()) for each in model.halves(x.double()))
    of_gates = (STEEPEST * value * gate).transpose(0, 2, 3, 1)
    rounding = 1.01 * 2.0**-11 * (4 * np.abs(expected) + of_gates)
    # Matrix units truncate when they add.
    expect_within(result.astype(np.float64), expected, 4 * bound + rounding)


@pytest.mark.parametrize(
    ("size", "channels", "filters"),
    [(16, 320, 1280), *wide_combinations([(32, 640, 2560), (64, 320, 1280), (16, 1280, 5120)])],
)
def test_geglu_of_a_diffusion_model_spills_nothing(
    size: int, channels: int, filters: int, tmp_path: Path
) -> None:
    model = Gated(channels, filters, nn.functional.gelu).eval().half()
    imported = iree.winograd.import_torch(model, torch.zeros(2, channels, size, size, dtype=torch.float16))
    flags = [f"--iree-hal-dump-executable-files-to={tmp_path}"]
    iree.winograd.compile(imported, target="cuda:sm_90a", strict=True, flags=flags)
    spilled = spilled_bytes(tmp_path, "sm_90a")
    assert any("winograd_gated" in name for name in spilled)
    assert not any("winograd_elementwise" in name for name in spilled)
    # Of 192 sums a thread may save two registers while it finishes results.
    assert max(spilled.values()) <= 8
