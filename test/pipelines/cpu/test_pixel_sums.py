"""Sums over pixels of images whose sizes are known only at run time, of integers, which are exact."""

from __future__ import annotations

import iree.winograd
import numpy as np
import pytest
import torch
from pixel_sum_program import EXPECTED, program
from wide import wide_combinations


@pytest.mark.parametrize(
    ("form", "channels"),
    [
        ("pooled", 21),
        ("rows", 21),
        *wide_combinations([("means", 21), ("pixels", 21), ("rows", 3), ("means", 32)]),
    ],
)
def test_sums_pixels_of_any_size(form: str, channels: int) -> None:
    compiled = iree.winograd.compile(program(form, channels), threads=1, strict=True)
    assert (b"winograd_row_sums_anyx%d" % channels in compiled) == (form != "rows")
    assert b"winograd_row_sums_anyxanyx%d" % channels in compiled
    run = iree.winograd.load(compiled, device="local-sync")
    random = np.random.default_rng(0)
    for size in [(1, 1, 1), (2, 1, 13), (1, 7, 3), (3, 5, 40), (1, 4, 0), (0, 2, 2), (1, 0, 4)]:
        image = random.integers(-100, 100, (*size, channels)).astype(np.float32)
        with np.errstate(invalid="ignore"):
            expected = EXPECTED[form](image)
        # A mean of all pixels is divided twice.
        rounding = 1.01 * 2.0**-23 if form == "pooled" else 0
        np.testing.assert_allclose(np.asarray(run(image)), expected, rtol=rounding)


class _Squeezed(torch.nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(1, channels, 1, bias=False)
        self.convolution.weight.data.copy_(torch.arange(1.0, channels + 1).reshape(channels, 1, 1, 1))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.convolution(image).mean((2, 3))


@pytest.mark.parametrize(("channels", "is_summed"), [(40, True), (8, False)])
def test_sums_pixels_that_a_convolution_writes(channels: int, is_summed: bool) -> None:
    model, image = _Squeezed(channels).eval(), torch.randint(-100, 100, (2, 1, 8, 16)).float()
    compiled = iree.winograd.compile(iree.winograd.import_torch(model, image), threads=1)
    assert (b"winograd_row_sums" in compiled) == is_summed
    result = np.asarray(iree.winograd.load(compiled, threads=1)(image.numpy()))
    # Sums of integers are exact, and so is dividing them by a power of two.
    exact = image.double().mean((2, 3)) * torch.arange(1, channels + 1)
    np.testing.assert_array_equal(result, exact.numpy())
