"""Programs of half precision on GPUs against float64: sums in f32, one rounding where the program has one."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import iree.winograd
import numpy as np
import numpy.typing as npt
import pytest
import torch
from wide import wide

Exact = npt.NDArray[np.float64]

TYPES = [torch.float16, torch.bfloat16]
NAMES = {torch.float16: "f16", torch.bfloat16: "bf16"}
ROUNDOFF = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
SMALLEST = {torch.float16: 2.0**-24, torch.bfloat16: 2.0**-133}
"""The distance of the smallest numbers of a type."""
SUM_ERROR = 1e-4
"""The most that a convolution in f32 may be off, of its largest output: what algorithms are chosen by."""

Layer = tuple[Callable[[], torch.nn.Module], tuple[int, ...]]


def _convolution(*sizes: int, **options: Any) -> Callable[[], torch.nn.Module]:
    return partial(torch.nn.Conv2d, *sizes, **options)


def _linear(*sizes: int) -> Callable[[], torch.nn.Module]:
    """Without a bias: torch rounds the product before it adds one."""
    return partial(torch.nn.Linear, *sizes, bias=False)


LAYERS: dict[str, Layer] = {
    "3x3": (_convolution(16, 24, 3, padding=1), (2, 16, 14, 15)),
    "strided": (_convolution(8, 16, 5, stride=2, padding=2), (1, 8, 21, 21)),
    "pointwise": (_convolution(48, 32, 1), (1, 48, 9, 9)),
    "depthwise": (_convolution(32, 32, 3, padding=1, groups=32), (1, 32, 12, 12)),
    "grouped": (_convolution(32, 32, 3, groups=4), (1, 32, 12, 12)),
    "no whole quads": (_convolution(5, 19, 3), (1, 5, 9, 9)),
    "transposed": (partial(torch.nn.ConvTranspose2d, 16, 8, 4, stride=2, padding=1), (1, 16, 9, 9)),
    "dilated": (_convolution(8, 8, 3, dilation=2), (1, 8, 12, 12)),
    "1-D": (partial(torch.nn.Conv1d, 16, 16, 9, padding=4), (1, 16, 50)),
    "3-D": (partial(torch.nn.Conv3d, 8, 8, 3, padding=1), (1, 8, 6, 9, 9)),
    "fully connected": (_linear(64, 40), (6, 64)),
}
"""Layers, and the sizes of their images."""


class Layers(torch.nn.Module):
    """Layers side by side, each of an image of its own: one program for all of them."""

    def __init__(self, layers: dict[str, Layer]) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(build() for build, _ in layers.values())

    def forward(self, *images: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(layer(image) for layer, image in zip(self.layers, images, strict=True))


def results_of(
    model: torch.nn.Module, inputs: list[torch.Tensor], target: str, **options: Any
) -> list[Exact]:
    program = iree.winograd.compile(
        iree.winograd.import_torch(model, *inputs), target=target, strict=True, **options
    )
    results = iree.winograd.load(program, device=target.partition(":")[0])(*inputs)
    listed = results if isinstance(results, tuple | list) else (results,)
    return [torch.as_tensor(each).double().numpy() for each in listed]


def in_double(model: torch.nn.Module, inputs: list[torch.Tensor]) -> list[Exact]:
    with torch.no_grad():
        results = copy.deepcopy(model).double()(*(each.double() for each in inputs))
    return [each.numpy() for each in (results if isinstance(results, tuple) else (results,))]


def expect_rounded_once(results: list[Exact], expected: list[Exact], type_: torch.dtype) -> None:
    """To half a unit in the last place beside the error of the sum in f32."""
    for result, exact in zip(results, expected, strict=True):
        bound = ROUNDOFF[type_] * np.abs(exact) + SMALLEST[type_] + SUM_ERROR * np.abs(exact).max()
        assert np.all(np.abs(result - exact) <= bound)


QUICK_LAYERS = ("3x3", "strided", "depthwise", "no whole quads", "fully connected")


@pytest.mark.parametrize(
    "names", [QUICK_LAYERS, *wide([tuple(name for name in LAYERS if name not in QUICK_LAYERS)])], ids=len
)
@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_layers_are_rounded_once(type_: torch.dtype, names: tuple[str, ...], gpu_target: str) -> None:
    torch.manual_seed(0)
    layers = {name: LAYERS[name] for name in names}
    model = Layers(layers).to(type_)
    inputs = [torch.randn(shape).to(type_) for _, shape in layers.values()]
    expect_rounded_once(results_of(model, inputs, gpu_target), in_double(model, inputs), type_)


MULTIPLIED: dict[str, Layer] = {
    "few channels": (_convolution(3, 32, 7, stride=2, padding=3), (2, 3, 32, 32)),
    "patches": (_convolution(64, 64, 3, padding=1), (4, 64, 28, 28)),
    "patches in blocks of channels": (_convolution(128, 128, 3, padding=1), (4, 128, 14, 14)),
    "rows of images": (_convolution(512, 512, 3, padding=1), (2, 512, 7, 7)),
    "strided": (_convolution(64, 128, 3, stride=2, padding=1), (2, 64, 28, 28)),
    "pointwise": (_convolution(64, 256, 1), (4, 64, 28, 28)),
    "long sums": (_convolution(1024, 256, 1), (4, 1024, 14, 14)),
    "pointwise, strided": (_convolution(256, 512, 1, stride=2), (2, 256, 28, 28)),
    "no whole blocks": (_convolution(72, 88, 3, padding=1), (2, 72, 13, 13)),
    "fully connected": (_linear(512, 1000), (32, 512)),
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
    expect_rounded_once(results, in_double(model, inputs), type_)
    if output_tile == 1:
        assert "f16" in _products(report)


def _products(report: Path) -> list[str]:
    return re.findall(r'"products": "(\w+)"', json.dumps(json.loads(report.read_text())))


class Network(torch.nn.Module):
    """What lies between convolutions: normalization, activations, shortcuts, pooling, resizing, softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 32, 3, padding=1)
        self.batch_norm = torch.nn.BatchNorm2d(32)
        self.squeezed = torch.nn.Conv2d(32, 32, 1)
        self.depthwise = torch.nn.Conv2d(32, 32, 3, padding=1, groups=32)
        self.group_norm = torch.nn.GroupNorm(4, 32)
        self.down = torch.nn.Conv2d(32, 32, 3, stride=2, padding=1)
        self.norm = torch.nn.LayerNorm(32)
        self.attention = torch.nn.MultiheadAttention(32, 2, batch_first=True)
        self.head = torch.nn.Linear(32, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.batch_norm(self.stem(image)))
        scale = torch.sigmoid(self.squeezed(x.mean((2, 3), keepdim=True)))
        x = x + torch.nn.functional.silu(self.group_norm(self.depthwise(x) * scale))
        small = torch.nn.functional.avg_pool2d(torch.nn.functional.max_pool2d(self.down(x), 3, 1, 1), 2)
        x = torch.nn.functional.interpolate(small, scale_factor=2, mode="nearest")
        bent = torch.nn.functional.gelu(self.down(x))
        x = torch.cat([x, bent.repeat_interleave(2, 2).repeat_interleave(2, 3)], 2)
        tokens = self.norm(x.flatten(2).transpose(1, 2))
        tokens = tokens + self.attention(tokens, tokens, tokens, need_weights=False)[0]
        return self.head(tokens.mean(1))


@pytest.mark.parametrize("type_", [torch.bfloat16, *wide([torch.float16])], ids=str)
def test_a_network_is_as_accurate_as_torch(type_: torch.dtype, gpu_target: str) -> None:
    torch.manual_seed(0)
    model = Network().eval()
    model.batch_norm.running_var.uniform_(0.5, 2)
    model, inputs = model.to(type_), [torch.randn(2, 3, 16, 16).to(type_)]
    (expected,) = in_double(model, inputs)
    with torch.no_grad():
        theirs = model(*inputs).double().numpy()
    # Both round some fifty times, in different places. Of all outputs together: the largest error is chance.
    bound = 1.5 * np.linalg.norm(theirs - expected) + ROUNDOFF[type_] * np.linalg.norm(expected)
    (result,) = results_of(model, inputs, gpu_target)
    assert np.linalg.norm(result - expected) <= bound


def test_what_has_no_number_in_f16(gpu_target: str) -> None:
    """Beyond 65504 there is infinity, as in f16 itself, not what f32 goes on with; NaN stays NaN."""

    class Doubled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convolution = torch.nn.Conv2d(1, 1, 1, bias=False)
            self.convolution.weight.data.fill_(2)

        def forward(self, image: torch.Tensor) -> torch.Tensor:
            return self.convolution(image) / 4

    numbers = [40000.0, 65504.0, -40000.0, float("nan"), float("inf"), 2.0**-20, 0.0, -3.0]
    image = torch.tensor(numbers, dtype=torch.float16).reshape(1, 1, 2, 4)
    model = Doubled().eval().half()
    with torch.no_grad():
        expected = model(image).double().numpy()
    np.testing.assert_array_equal(results_of(model, [image], gpu_target)[0], expected)


@pytest.mark.parametrize("type_", TYPES, ids=str)
@pytest.mark.parametrize("target", ["cuda:sm_90a", *wide(["cuda:sm_80"])])
def test_half_numbers_are_multiplied_once(target: str, type_: torch.dtype, tmp_path: Path) -> None:
    """Of numbers that are split for as many bits there would be three products, and twice as many loads."""
    model = Layers({"pointwise": (_convolution(1024, 256, 1), (32, 1024, 14, 14))}).to(type_)
    inputs = [torch.randn(32, 1024, 14, 14).to(type_)]
    report = tmp_path / "report.json"
    imported = iree.winograd.import_torch(model, *inputs)
    flags = [f"--iree-hal-dump-executable-binaries-to={tmp_path}"]
    iree.winograd.compile(imported, target=target, strict=True, report=report, flags=flags)
    assert _products(report) == ["f16"]
    kernels = [path.read_text() for path in tmp_path.glob("*.ptx")]
    assert any(re.search(r"\bw?g?mma\.(mma_async|sync)", each) for each in kernels)
