"""Programs of half precision on GPUs against float64: sums in f32, one rounding where the program has one."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

import iree.winograd
import pytest
import torch
from half_precision import (
    LAYERS,
    OTHER_LAYERS,
    QUICK_LAYERS,
    SUM_ERRORS,
    TYPES,
    Layer,
    Layers,
    convolution,
    expect_a_network_as_accurate_as_torch,
    expect_infinity_beyond,
    expect_rounded_once,
    in_double,
    linear,
    results_of,
)
from ptxas import spilled_bytes
from torch import nn
from wide import wide, wide_combinations

NAMES = {torch.float16: "f16", torch.bfloat16: "bf16"}


@pytest.mark.parametrize(
    ("names", "type_"),
    [
        (QUICK_LAYERS, torch.float16),
        *wide_combinations([(OTHER_LAYERS, torch.bfloat16)]),
    ],
)
def test_layers_are_rounded_once(type_: torch.dtype, names: tuple[str, ...], gpu_target: str) -> None:
    torch.manual_seed(0)
    layers = {name: LAYERS[name] for name in names}
    model = Layers(layers).to(type_)
    inputs = [torch.randn(shape).to(type_) for _, shape in layers.values()]
    expect_rounded_once(
        results_of(model, inputs, gpu_target), in_double(model, inputs), type_, SUM_ERRORS["gpu"]
    )


def pooled() -> nn.Module:
    """A convolution whose outputs are pooled, then read as they are by another one."""
    last = nn.Conv2d(16, 16, 1, bias=False)
    nn.init.dirac_(last.weight)
    return nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2, 1), last)


@pytest.mark.parametrize("type_", wide([torch.float16]))
def test_pooled_layers_are_rounded_once(type_: torch.dtype, gpu_target: str) -> None:
    torch.manual_seed(0)
    model = Layers({"pooled": (pooled, (2, 3, 20, 21))}).to(type_)
    inputs = [torch.randn(2, 3, 20, 21).to(type_)]
    expect_rounded_once(
        results_of(model, inputs, gpu_target), in_double(model, inputs), type_, SUM_ERRORS["gpu"]
    )


MULTIPLIED: dict[str, Layer] = {
    "few channels": (convolution(3, 32, 7, stride=2, padding=3), (2, 3, 32, 32)),
    "patches": (convolution(64, 64, 3, padding=1), (4, 64, 28, 28)),
    "patches in blocks of channels": (convolution(128, 128, 3, padding=1), (4, 128, 14, 14)),
    "rows of images": (convolution(512, 512, 3, padding=1), (2, 512, 7, 7)),
    "strided": (convolution(64, 128, 3, stride=2, padding=1), (2, 64, 28, 28)),
    "pointwise": (convolution(64, 256, 1), (4, 64, 28, 28)),
    "long sums": (convolution(1024, 256, 1), (4, 1024, 14, 14)),
    "pointwise, strided": (convolution(256, 512, 1, stride=2), (2, 256, 28, 28)),
    "no whole blocks": (convolution(72, 88, 3, padding=1), (2, 72, 13, 13)),
    "grouped and dilated": (convolution(128, 128, 3, padding=2, dilation=2, groups=2), (2, 128, 19, 17)),
    "blocks of 160 columns": (convolution(128, 320, 3, padding=1), (2, 128, 65, 63)),
    "fully connected": (linear(512, 1000), (32, 512)),
    "fully connected, few rows": (linear(520, 1004), (3, 520)),
    "fully connected, a row": (linear(4096, 4096), (1, 4096)),
}
"""What is multiplied on matrix units where there are some, larger than the others."""


@pytest.mark.matrix_units
@pytest.mark.parametrize("type_", TYPES, ids=str)
@pytest.mark.parametrize("output_tile", [None, 1])
def test_large_layers_are_rounded_once(
    type_: torch.dtype, output_tile: int | None, gpu_target: str, tmp_path: Path
) -> None:
    """One product on matrix units for each, of numbers across more than half of their type's range."""
    torch.manual_seed(0)
    model = Layers(MULTIPLIED).to(type_)
    inputs = [
        (torch.randn(shape) * torch.exp2(torch.randint(-12, 4, shape))).to(type_)
        for _, shape in MULTIPLIED.values()
    ]
    report = tmp_path / "report.json"
    results = results_of(model, inputs, gpu_target, output_tile=output_tile, report=report)
    expect_rounded_once(results, in_double(model, inputs), type_, SUM_ERRORS["gpu"])
    if output_tile == 1:
        assert NAMES[type_] in _products(report)


def _products(report: Path) -> list[str]:
    return re.findall(r'"products": "(\w+)"', json.dumps(json.loads(report.read_text())))


@pytest.mark.wide
def test_a_network_is_as_accurate_as_torch(gpu_target: str) -> None:
    expect_a_network_as_accurate_as_torch(torch.bfloat16, gpu_target)


@pytest.mark.wide
def test_what_has_no_number_in_f16(gpu_target: str) -> None:
    expect_infinity_beyond(torch.float16, smallest=2.0**-20, target=gpu_target)


def enlarged() -> nn.Module:
    """An image that is enlarged between convolutions."""
    convolutions = nn.Conv2d(512, 512, 1), nn.Conv2d(512, 512, 3, padding=1)
    return nn.Sequential(convolutions[0], nn.Upsample(scale_factor=2), convolutions[1])


class RoundedOnce(nn.Linear):
    """A linear layer as torch.compile has it: the sum with the bias is rounded, not the product."""

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        single = (each.float() for each in (rows, self.weight, self.bias))
        return nn.functional.linear(*single).to(rows.dtype)


@pytest.mark.parametrize(
    ("target", "type_"),
    wide_combinations(
        [("cuda:sm_90a", torch.float16), ("cuda:sm_90a", torch.bfloat16), ("cuda:sm_80", torch.float16)]
    ),
)
def test_half_numbers_are_multiplied_once(target: str, type_: torch.dtype, tmp_path: Path) -> None:
    """Of numbers that are split for as many bits there would be three products, and twice as many loads.

    Bounds of activations are numbers of half precision, too, and so are pixels that are repeated; those are
    convolved by F(4x4, 3x3) without warpgroups, which is faster there. The sums of a linear layer are rounded
    behind its bias.
    """

    def bounded() -> nn.Module:
        return nn.Sequential(nn.ReLU6(), nn.Conv2d(1024, 256, 1))

    layers: dict[str, Layer] = {
        "pointwise": (bounded, (32, 1024, 14, 14)),
        "linear": (partial(RoundedOnce, 1280, 320), (512, 1280)),
    }
    if target == "cuda:sm_90a":
        layers["enlarged"] = enlarged, (2, 512, 16, 16)
    model = Layers(layers).to(type_)
    inputs = [torch.randn(shape).to(type_) for _, shape in layers.values()]
    report = tmp_path / "report.json"
    imported = iree.winograd.import_torch(model, *inputs)
    flags = [f"--iree-hal-dump-executable-binaries-to={tmp_path}"]
    iree.winograd.compile(imported, target=target, strict=True, report=report, flags=flags)
    assert set(_products(report)) == {NAMES[type_]}
    kernels = [path.read_text() for path in tmp_path.glob("*.ptx")]
    products = rf"\bw?g?mma\.(mma_async|sync).*\.f32\.{NAMES[type_]}\.{NAMES[type_]}"
    assert any(re.search(products, each) for each in kernels)


class Residual(nn.Module):
    """The end of a residual block: what normalizes four vectors of each channel tell."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(64, 256, 1, bias=False), nn.BatchNorm2d(256))

    def forward(self, image: torch.Tensor, shortcut: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = (self.layers(image) + shortcut).relu()
        return result


def test_what_an_epilogue_reads_spills_no_registers(tmp_path: Path) -> None:
    """It was read for all columns of a block before its first row was stored."""
    images = [torch.zeros(32, channels, 56, 56, dtype=torch.float16) for channels in (64, 256)]
    model = iree.winograd.import_torch(Residual().eval().half(), *images)
    flags = [f"--iree-hal-dump-executable-files-to={tmp_path}"]
    iree.winograd.compile(model, target="cuda:sm_90a", flags=flags, strict=True)
    spilled = spilled_bytes(tmp_path, "sm_90a")
    assert "winograd_direct_f1x1_1x1_56x56x256_from_64" in spilled
    assert set(spilled.values()) == {0}
