"""Programs of half precision against float64: sums in f32, one rounding where the program has one."""

from __future__ import annotations

import copy
import json
import warnings
from pathlib import Path

import iree.winograd
import numpy as np
import pytest
import torch
from half_precision import (
    LAYERS,
    OTHER_LAYERS,
    QUICK_LAYERS,
    ROUNDOFF,
    SUM_ERRORS,
    TYPES,
    Layers,
    expect_a_network_as_accurate_as_torch,
    expect_as_accurate_as_torch,
    expect_infinity_beyond,
    expect_rounded_once,
    in_double,
    results_of,
)
from iree.winograd.pipelines.for_target import widen_half
from wide import sampled, wide, wide_combinations


@pytest.mark.parametrize(
    ("names", "type_"),
    [
        (QUICK_LAYERS, TYPES[0]),
        *wide_combinations([(OTHER_LAYERS, torch.bfloat16)]),
    ],
)
def test_layers_are_rounded_once(names: tuple[str, ...], type_: torch.dtype) -> None:
    torch.manual_seed(0)
    layers = {name: LAYERS[name] for name in names}
    model = Layers(layers).to(type_)
    images = [torch.randn(shape).to(type_) for _, shape in layers.values()]
    expect_rounded_once(results_of(model, images), in_double(model, images), type_, SUM_ERRORS["cpu"])


class _Mixer(torch.nn.Module):
    """Products over channels and over tokens, as MLP-Mixer's, and no convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(32)
        self.tokens = torch.nn.Sequential(torch.nn.Linear(49, 24), torch.nn.GELU(), torch.nn.Linear(24, 49))
        self.channels = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.tokens(self.norm(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm(x))


@pytest.mark.parametrize("type_", [TYPES[1], *wide(TYPES[:1])], ids=str)
def test_linear_layers_alone(type_: torch.dtype) -> None:
    """IREE doesn't compile all products of bf16 for CPUs."""
    torch.manual_seed(0)
    model = _Mixer().eval().to(type_)
    expect_as_accurate_as_torch(model, model, torch.randn(2, 49, 32).to(type_), type_)


class _Functions(torch.nn.Module):
    """Functions of the same elements, each of several operations."""

    def __init__(self) -> None:
        super().__init__()
        self.copy = torch.nn.Conv2d(1, 1, 1, bias=False)
        self.copy.weight.data.fill_(1)

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        functions = torch.nn.functional
        copied = self.copy(image)
        return (
            functions.elu(copied),
            functions.gelu(copied),
            functions.hardsigmoid(copied),
            functions.hardswish(copied),
            functions.mish(copied),
            functions.silu(copied),
            functions.softplus(copied),
            torch.sigmoid(copied),
        )


@pytest.mark.parametrize("type_", sampled(TYPES, [torch.bfloat16]), ids=str)
def test_functions_are_rounded_once(type_: torch.dtype) -> None:
    """In bf16 a function of four operations would be off by four roundings; f32's are off by 2^-20."""
    model = _Functions().to(type_)
    image = torch.linspace(-4, 4, 64, dtype=torch.float64).reshape(1, 1, 8, 8).to(type_)
    for result, expected in zip(results_of(model, [image]), in_double(model, [image]), strict=True):
        assert np.all(np.abs(result - expected) <= ROUNDOFF[type_] * np.abs(expected) + 2.0**-20)


@pytest.mark.parametrize("type_", [TYPES[0], *wide(TYPES[1:])], ids=str)
def test_a_number_that_half_precision_lacks(type_: torch.dtype) -> None:
    """The slope is rounded by itself, and the product once more."""
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 1, 1, bias=False), torch.nn.LeakyReLU(0.1)).to(type_)
    model[0].weight.data.fill_(1)
    image = torch.linspace(-4, 4, 64, dtype=torch.float64).reshape(1, 1, 8, 8).to(type_)
    (result,), (expected,) = results_of(model, [image]), in_double(model, [image])
    assert np.all(np.abs(result - expected) <= 2.01 * ROUNDOFF[type_] * np.abs(expected))


@pytest.mark.wide
def test_a_network_is_as_accurate_as_torch() -> None:
    expect_a_network_as_accurate_as_torch(torch.float16)


@pytest.mark.parametrize("type_", [TYPES[0], *wide(TYPES[1:])], ids=str)
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
    expect_as_accurate_as_torch(model, model.layers, image, type_)


@pytest.mark.parametrize("type_", [TYPES[0], *wide(TYPES[1:])], ids=str)
def test_images_of_any_size(type_: torch.dtype) -> None:
    """Sizes are expected of convolutions that are in f32: those of half precision would be left to IREE."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(8, 16, 3, 2, 1), torch.nn.ReLU()).to(type_)
    dimensions = {2: torch.export.Dim("height", min=3), 3: torch.export.Dim("width", min=3)}
    example = torch.zeros(1, 8, 12, 12, dtype=type_)
    exported = torch.export.export(model, (example,), dynamic_shapes=(dimensions,))
    with warnings.catch_warnings():
        warnings.simplefilter("error", iree.winograd.LeftWarning)
        compiled = iree.winograd.compile(iree.winograd.import_torch(exported), threads=1, strict=True)
    program = iree.winograd.load(compiled, threads=1)
    for size in [(3, 5), (12, 12), (9, 31)]:
        image = torch.randn(1, 8, *size).to(type_)
        result = torch.as_tensor(program(image)).double().numpy()
        expect_rounded_once([result], in_double(model, [image]), type_, SUM_ERRORS["cpu"])


@pytest.mark.parametrize(("mode", "roundings"), [("nearest", 0), *wide_combinations([("bilinear", 6)])])
def test_resized_pixels_of_any_size_are_of_half_precision(mode: str, roundings: int, tmp_path: Path) -> None:
    """What multiplies numbers of bf16 may do so of pixels that are repeated, or blended and rounded: weights,
    products and sums in each dimension."""
    torch.manual_seed(0)
    first, second = (torch.nn.Conv2d(8, 8, 3, padding=1).bfloat16() for _ in range(2))
    model = torch.nn.Sequential(first, torch.nn.Upsample(scale_factor=2.0, mode=mode), second).eval()
    size = {2: torch.export.Dim("height", min=2), 3: torch.export.Dim("width", min=2)}
    exported = torch.export.export(model, (torch.zeros(1, 8, 9, 7).bfloat16(),), dynamic_shapes=(size,))
    report = tmp_path / "report.json"
    compiled = iree.winograd.compile(iree.winograd.import_torch(exported), threads=1, report=report)
    layers = json.loads(report.read_text())["layers"]
    assert all("operands of bf16" in layer["problem"]["text"] for layer in layers) and len(layers) == 2
    program, image = iree.winograd.load(compiled, threads=1), torch.randn(1, 8, 5, 11).bfloat16()
    result = torch.as_tensor(program(image)).double()
    with torch.no_grad():
        enlarged = model[1](copy.deepcopy(first).double()(image.double()))
        exact, magnitudes = copy.deepcopy(second).double()(enlarged), copy.deepcopy(second).double()
        for each in magnitudes.parameters():
            each.abs_()
        # A rounding of the first result, those of what is multiplied, and one of the result.
        bound = (
            (2 + roundings)
            * ROUNDOFF[torch.bfloat16]
            * float(magnitudes(model[1](copy.deepcopy(first).double()(image.double()).abs())).max())
        )
    assert (result - exact).abs().max() <= bound


@pytest.mark.parametrize(
    ("name", "type_"), [("f16", torch.float16), *wide_combinations([("bf16", torch.bfloat16)])]
)
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


class _Mean(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean((2, 3))


@pytest.mark.parametrize(
    "average",
    [torch.nn.AvgPool2d(7), _Mean(), *wide([torch.nn.AdaptiveAvgPool2d(1), torch.nn.AvgPool2d(5, 2, 2)])],
)
def test_averages_whose_sums_f16_lacks(average: torch.nn.Module) -> None:
    """As behind the last convolution of pytorchcv's wrn50_2, where 49 pixels sum up to more than 65504."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(8, 16, 1), torch.nn.ReLU(), average).to(torch.float16)
    with torch.no_grad():
        model[0].weight.fill_(1)
    images = [(1000 * torch.rand(1, 8, 7, 7)).to(torch.float16)]
    (result,), (exact,) = results_of(model, images), in_double(model, images)
    assert 49 * exact.max() > 2 * torch.finfo(torch.float16).max
    # Pixels are rounded, and means of rows, and their mean.
    bound = 3 * ROUNDOFF[torch.float16] + 3 * SUM_ERRORS["cpu"]
    np.testing.assert_allclose(result, exact, rtol=bound)


def test_a_failure_leaves_the_program_in_half_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ValueError("injected")

    monkeypatch.setattr(widen_half, "widen_body", fail)
    layer, image = torch.nn.Conv2d(4, 4, 3).half(), torch.randn(1, 4, 8, 8).half()
    with pytest.warns(iree.winograd.RewriteWarning, match="winograd-widen-half failed on program 0"):
        compiled = iree.winograd.compile(iree.winograd.import_torch(layer, image), threads=1)
    (expected,) = in_double(layer, [image])
    # IREE rounds no partial sums of a program that has them in f32.
    bound = 2 * ROUNDOFF[torch.float16] * np.abs(expected).max()
    result = np.asarray(iree.winograd.load(compiled, threads=1)(image.numpy()), np.float64)
    assert np.abs(result - expected).max() <= bound


@pytest.mark.parametrize(
    ("type_", "smallest"),
    [(torch.float16, 2.0**-24), *wide_combinations([(torch.bfloat16, 2.0**-125)])],
    ids=["f16", "bf16"],
)
def test_what_has_no_number(type_: torch.dtype, smallest: float) -> None:
    expect_infinity_beyond(type_, smallest)


def test_numbers_below_the_normal_ones() -> None:
    """Of f16 they are kept by instructions, and zero without; of bf16 they are those of f32: zero or kept."""
    layer, small = torch.nn.Conv2d(1, 1, 1, bias=False), 2.0**-20
    layer.weight.data.fill_(1)
    numbers = torch.tensor([small, -3 * small, 2.0**-14, 1.0]).reshape(1, 1, 2, 2)
    for target, kept in (("cpu", 1), ("cpu:x86-64", 0)):
        (result,) = results_of(layer.half(), [numbers.half()], target)
        np.testing.assert_array_equal(result.ravel(), [kept * small, -3 * kept * small, 2.0**-14, 1.0])
    tiny = torch.tensor([2.0**-130, 2.0**-126, 1.0, 0.0], dtype=torch.bfloat16).reshape(1, 1, 2, 2)
    (result,) = results_of(layer.bfloat16(), [tiny])
    assert result.ravel()[0] in (0.0, 2.0**-130)
    np.testing.assert_array_equal(result.ravel()[1:], [2.0**-126, 1.0, 0.0])
