"""Programs of half precision against float64: sums in f32, one rounding where the program has one."""

from __future__ import annotations

import copy
from collections.abc import Callable

import iree.winograd
import numpy as np
import pytest
import torch
from iree.winograd.pipelines.for_target import widen_half
from numpy.typing import NDArray
from wide import sampled

ROUNDOFF = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
SMALLEST = {torch.float16: 2.0**-24, torch.bfloat16: 2.0**-133}
"""The distance of the smallest numbers of a type."""
SUM_ERROR = 1e-5
"""The most that a convolution in f32 may be off, of its largest output: what algorithms are chosen by."""
TYPES = [torch.float16, torch.bfloat16]

QUICK_LAYERS = ("3x3", "depthwise")
LAYERS: dict[str, tuple[Callable[[], torch.nn.Module], tuple[int, ...]]] = {
    "3x3": (lambda: torch.nn.Conv2d(16, 24, 3, padding=1), (2, 16, 14, 15)),
    "strided": (lambda: torch.nn.Conv2d(8, 16, 5, stride=2, padding=2), (1, 8, 21, 21)),
    "pointwise": (lambda: torch.nn.Conv2d(48, 32, 1), (1, 48, 9, 9)),
    "depthwise": (lambda: torch.nn.Conv2d(32, 32, 3, padding=1, groups=32), (1, 32, 12, 12)),
    "grouped": (lambda: torch.nn.Conv2d(32, 32, 3, groups=4), (1, 32, 12, 12)),
    "transposed": (lambda: torch.nn.ConvTranspose2d(16, 8, 4, stride=2, padding=1), (1, 16, 9, 9)),
    "1-D": (lambda: torch.nn.Conv1d(16, 16, 9, padding=4), (1, 16, 50)),
    "3-D": (lambda: torch.nn.Conv3d(8, 8, 3, padding=1), (1, 8, 6, 9, 9)),
}


def result_of(model: torch.nn.Module, *inputs: torch.Tensor) -> NDArray[np.float64]:
    program = iree.winograd.compile(iree.winograd.import_torch(model, *inputs), threads=1, strict=True)
    result = iree.winograd.load(program, threads=1)(*inputs)
    if not isinstance(result, torch.Tensor):
        return np.asarray(result, np.float64)
    return result.double().numpy()


def in_double(model: torch.nn.Module, *inputs: torch.Tensor) -> NDArray[np.float64]:
    with torch.no_grad():
        result: torch.Tensor = copy.deepcopy(model).double()(*(each.double() for each in inputs))
    return result.numpy()


@pytest.mark.parametrize("name", sampled(list(LAYERS), QUICK_LAYERS))
@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_a_layer_is_rounded_once(name: str, type_: torch.dtype) -> None:
    """To half a unit in the last place beside the error of the sum in f32."""
    torch.manual_seed(0)
    build, shape = LAYERS[name]
    layer, image = build().to(type_), torch.randn(shape).to(type_)
    expected = in_double(layer, image)
    bound = ROUNDOFF[type_] * np.abs(expected) + SMALLEST[type_] + SUM_ERROR * np.abs(expected).max()
    assert np.all(np.abs(result_of(layer, image) - expected) <= bound)


class Network(torch.nn.Module):
    """What lies between convolutions: normalization, activations, shortcuts, pooling, resizing, attention."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 32, 3, padding=1)
        self.batch_norm = torch.nn.BatchNorm2d(32)
        self.squeezed = torch.nn.Conv2d(32, 32, 1)
        self.group_norm = torch.nn.GroupNorm(4, 32)
        self.down = torch.nn.Conv2d(32, 32, 3, stride=2, padding=1)
        self.norm = torch.nn.LayerNorm(32)
        self.attention = torch.nn.MultiheadAttention(32, 2, batch_first=True)
        self.head = torch.nn.Linear(32, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.batch_norm(self.stem(image)))
        scale = torch.sigmoid(self.squeezed(x.mean((2, 3), keepdim=True)))
        x = x + torch.nn.functional.silu(self.group_norm(x * scale))
        small = torch.nn.functional.avg_pool2d(torch.nn.functional.max_pool2d(self.down(x), 3, 1, 1), 2)
        x = torch.nn.functional.interpolate(small, scale_factor=2, mode="nearest")
        bent = torch.nn.functional.gelu(self.down(x))
        x = torch.cat([x, bent.repeat_interleave(2, 2).repeat_interleave(2, 3)], 2)
        tokens = self.norm(x.flatten(2).transpose(1, 2))
        tokens = tokens + self.attention(tokens, tokens, tokens, need_weights=False)[0]
        return self.head(tokens.mean(1))


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_a_network_is_as_accurate_as_torch(type_: torch.dtype) -> None:
    torch.manual_seed(0)
    model = Network().eval()
    model.batch_norm.running_var.uniform_(0.5, 2)
    model, image = model.to(type_), torch.randn(2, 3, 16, 16).to(type_)
    expected = in_double(model, image)
    with torch.no_grad():
        single = model(image).double().numpy()
    # Both round some fifty times, in different places.
    bound = 1.5 * np.abs(single - expected).max() + ROUNDOFF[type_] * np.abs(expected).max()
    assert np.abs(result_of(model, image) - expected).max() <= bound


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_an_autocast_program(type_: torch.dtype) -> None:
    """Weights and images are f32, convolutions of half precision."""

    class Autocast(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            first, last = torch.nn.Conv2d(8, 16, 3), torch.nn.Conv2d(16, 8, 3)
            self.layers = torch.nn.Sequential(first, torch.nn.ReLU(), last)

        def forward(self, image: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu", type_):
                result: torch.Tensor = self.layers(image)
            return result

    torch.manual_seed(0)
    model, image = Autocast().eval(), torch.randn(1, 8, 12, 12)
    expected = in_double(model.layers, image)
    with torch.no_grad():
        single = model(image).double().numpy()
    bound = 1.5 * np.abs(single - expected).max() + ROUNDOFF[type_] * np.abs(expected).max()
    assert np.abs(result_of(model, image) - expected).max() <= bound


@pytest.mark.parametrize(("name", "type_"), [("f16", torch.float16), ("bf16", torch.bfloat16)])
def test_sums_that_a_program_has_in_half_precision(name: str, type_: torch.dtype) -> None:
    """As JAX states them by default: 2304 ones, of which f16 can't count those beyond 2048."""
    text = f"""
func.func @main(%x: tensor<1x5x5x256x{name}>, %w: tensor<3x3x256x8x{name}>) -> tensor<1x3x3x8x{name}> {{
  %zero = arith.constant 0.0 : {name}
  %e = tensor.empty() : tensor<1x3x3x8x{name}>
  %zeros = linalg.fill ins(%zero : {name}) outs(%e : tensor<1x3x3x8x{name}>) -> tensor<1x3x3x8x{name}>
  %r = linalg.conv_2d_nhwc_hwcf ins(%x, %w : tensor<1x5x5x256x{name}>, tensor<3x3x256x8x{name}>)
    outs(%zeros : tensor<1x3x3x8x{name}>) -> tensor<1x3x3x8x{name}>
  return %r : tensor<1x3x3x8x{name}>
}}
"""
    program = iree.winograd.load(iree.winograd.compile(text, threads=1, strict=True), threads=1)
    result = program(torch.ones(1, 5, 5, 256, dtype=type_), torch.ones(3, 3, 256, 8, dtype=type_))
    assert torch.as_tensor(result).double().eq(2304).all()


def test_a_failure_leaves_the_program_in_half_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ValueError("injected")

    monkeypatch.setattr(widen_half, "widen_body", fail)
    layer, image = torch.nn.Conv2d(4, 4, 3).half(), torch.randn(1, 4, 8, 8).half()
    with pytest.warns(iree.winograd.RewriteWarning, match="winograd-widen-half failed on program 0"):
        compiled = iree.winograd.compile(iree.winograd.import_torch(layer, image), threads=1)
    expected = in_double(layer, image)
    # IREE rounds no partial sums of a program that has them in f32.
    bound = 2 * ROUNDOFF[torch.float16] * np.abs(expected).max()
    result = np.asarray(iree.winograd.load(compiled, threads=1)(image.numpy()), np.float64)
    assert np.abs(result - expected).max() <= bound


def test_what_has_no_number_in_f16() -> None:
    """Beyond 65504 there is infinity, as in f16 itself, not what f32 goes on with; NaN stays NaN."""

    class Doubled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convolution = torch.nn.Conv2d(1, 1, 1, bias=False)
            self.convolution.weight.data.fill_(2)

        def forward(self, image: torch.Tensor) -> torch.Tensor:
            return self.convolution(image) / 4

    numbers = [40000.0, 65504.0, -40000.0, float("nan"), float("inf"), 2.0**-24, 0.0, -3.0]
    image = torch.tensor(numbers, dtype=torch.float16).reshape(1, 1, 2, 4)
    model = Doubled().eval().half()
    with torch.no_grad():
        expected = model(image).double().numpy()
    np.testing.assert_array_equal(result_of(model, image), expected)
