"""Models that PT2E quantises: f32 convolutions between numbers that are rounded to bytes."""

from __future__ import annotations

import json
from pathlib import Path

import iree.winograd
import numpy as np
import pytest
import torch
import torch.ao.quantization.fx._decomposed  # PT2E's operators.
from torch import nn
from torch.nn import functional
from wide import wide

_OPERATORS = torch.ops.quantized_decomposed
UNSIGNED, SIGNED = (0, 255, torch.uint8), (-128, 127, torch.int8)
SHORTS = (-(1 << 15), (1 << 15) - 1, torch.int16)
SCALE, RESULT_SCALE = 0.0371, 0.0613
"""Of what lies between the layers, and of the result."""


def through_bytes(value: torch.Tensor, scale: float, zero: int) -> torch.Tensor:
    """As X86InductorQuantizer has it of images."""
    bytes_ = _OPERATORS.quantize_per_tensor(value, scale, zero, *UNSIGNED)
    result: torch.Tensor = _OPERATORS.dequantize_per_tensor(bytes_, scale, zero, *UNSIGNED)
    return result


class Quantized(nn.Module):
    """An inverted residual block as `convert_pt2e` leaves it: bytes of weights, of each output a scale."""

    def __init__(self) -> None:
        super().__init__()
        for name, shape in {"wide": (48, 16, 1, 1), "deep": (48, 1, 3, 3), "narrow": (16, 48, 1, 1)}.items():
            filters = torch.randint(-127, 128, shape, dtype=torch.int8)
            self.register_buffer(name, filters)
            self.register_buffer(f"{name}_scales", torch.rand(shape[0]) * 4e-3 + 1e-3)
            self.register_buffer(f"{name}_zeros", torch.zeros(shape[0], dtype=torch.int64))
            self.register_buffer(f"{name}_bias", torch.randn(shape[0]))

    def convolution(self, image: torch.Tensor, name: str, **options: int) -> torch.Tensor:
        parts = (self.get_buffer(f"{name}{part}") for part in ("", "_scales", "_zeros"))
        filters = _OPERATORS.dequantize_per_channel(*parts, 0, *SIGNED)
        return functional.conv2d(image, filters, self.get_buffer(f"{name}_bias"), **options)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        image = through_bytes(image, SCALE, 117)
        x = through_bytes(functional.relu6(self.convolution(image, "wide")), SCALE, 0)
        x = through_bytes(functional.relu6(self.convolution(x, "deep", padding=1, groups=48)), SCALE, 0)
        x = through_bytes(self.convolution(x, "narrow"), SCALE, 131)
        return through_bytes(functional.max_pool2d(x + image, 2), RESULT_SCALE, 122)


@pytest.mark.wide
def test_a_quantised_block_is_f32_kernels_that_round(tmp_path: Path) -> None:
    """Filters are constants, and epilogues round. A number near a half may become either byte."""
    torch.manual_seed(0)
    image, report = torch.randn(1, 16, 20, 20), tmp_path / "report.json"
    # What is quantised is a module that was exported: its mode can't be changed.
    model = torch.export.export(Quantized(), (image,)).module()
    with torch.no_grad():
        expected = model(image)
    program = iree.winograd.compile(iree.winograd.import_torch(model, image), threads=1, report=report)
    result = torch.as_tensor(iree.winograd.load(program, threads=1)(image))
    steps = ((result - expected) / RESULT_SCALE).round()
    assert steps.abs().max() <= 2 and (steps != 0).double().mean() < 0.01
    np.testing.assert_allclose(result, expected + RESULT_SCALE * steps, atol=1e-5)
    stated = json.loads(report.read_text())
    assert not any("run time" in layer["problem"]["text"] for layer in stated["layers"])
    # The image becomes bytes; sums are pooled, and become bytes.
    assert len(stated["dispatches"]) <= len(stated["layers"]) + 3


@pytest.mark.parametrize("zero", [117, *wide([0])])
def test_all_numbers_become_the_bytes_that_torch_makes_of_them(zero: int) -> None:
    """Halves go to the even one, what is beyond the bytes to their ends; of a NaN any byte may be made."""

    class Bytes(nn.Module):
        def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
            same = functional.conv2d(image, torch.ones(1, 1, 1, 1))
            activated = functional.relu6(functional.conv2d(image, torch.ones(1, 1, 1, 1)))
            bytes_ = _OPERATORS.quantize_per_tensor(image, 0.25, zero, *UNSIGNED)
            return through_bytes(same, 0.25, zero), through_bytes(activated, 0.25, zero), bytes_

    numbers = torch.cat([torch.arange(-600, 600) / 8, torch.tensor([2.0**20, -(2.0**21), 2.0**23 + 2, 3e38])])
    image = torch.cat([numbers, -numbers, torch.tensor([float("inf"), -float("inf")])]).reshape(1, 1, 2, -1)
    compiled = iree.winograd.compile(iree.winograd.import_torch(Bytes(), image), threads=1)
    program = iree.winograd.load(compiled, threads=1)
    for result, expected in zip(program(image), Bytes()(image), strict=True):
        # MLIR's bytes have no sign.
        numbers = torch.as_tensor(result)
        numbers = numbers.view(torch.uint8) if expected.dtype == torch.uint8 else numbers
        np.testing.assert_array_equal(numbers, expected)


def test_integers_of_16_bits_between_layers_are_never_written(tmp_path: Path) -> None:
    """f32 holds them as well as bytes."""

    class Shorts(nn.Module):
        def forward(self, image: torch.Tensor) -> torch.Tensor:
            for _ in range(2):
                image = functional.conv2d(image, torch.ones(1, 1, 1, 1))
                shorts = _OPERATORS.quantize_per_tensor(image, 2.0**-8, 100, *SHORTS)
                image = _OPERATORS.dequantize_per_tensor(shorts, 2.0**-8, 100, *SHORTS)
            return image

    image, report = (
        torch.cat([torch.arange(-2100, 2100) / 1024, torch.arange(-200.0, 200)]),
        tmp_path / "report.json",
    )
    image = image.reshape(1, 1, 2, -1)
    imported = iree.winograd.import_torch(Shorts(), image)
    compiled = iree.winograd.compile(imported, threads=1, report=report)
    result = iree.winograd.load(compiled, threads=1)(image)
    np.testing.assert_array_equal(result, Shorts()(image))
    stated = json.loads(report.read_text())
    assert len(stated["dispatches"]) == len(stated["layers"]) == 2
