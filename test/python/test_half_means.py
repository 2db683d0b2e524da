"""Means of images of half precision and of any size, against float64."""

from __future__ import annotations

import iree.winograd as winograd
import numpy as np
import pytest
import torch

CHANNELS = 16
DIGITS = {torch.float16: 11, torch.bfloat16: 8}
SINGLE_DIGITS = 24


class Pooled(torch.nn.Module):
    """Images, as a convolution gives them back, and their means over all pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.same = torch.nn.Conv2d(CHANNELS, CHANNELS, 1, bias=False)
        with torch.no_grad():
            self.same.weight.copy_(torch.eye(CHANNELS)[..., None, None])

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        same = self.same(image)
        means = torch.nn.functional.adaptive_avg_pool2d(same, 1)
        return means, same * torch.sigmoid(means)


@pytest.mark.parametrize("type_", DIGITS)
def test_means_are_rounded_once(type_: torch.dtype) -> None:
    """Sums of rows of a hundred pixels are beyond what f16 holds: of these none is rounded to it."""
    sizes = {2: torch.export.Dim("height", min=2), 3: torch.export.Dim("width", min=2)}
    example = torch.zeros(1, CHANNELS, 20, 24, dtype=type_)
    exported = torch.export.export(Pooled().eval().to(type_), (example,), dynamic_shapes=(sizes,))
    compiled = winograd.compile(winograd.import_torch(exported), threads=1, strict=True)
    assert b"winograd_row_sums_anyxanyx16" in compiled
    program = winograd.load(compiled, "local-sync")
    generator = torch.Generator().manual_seed(0)
    for height, width in [(20, 24), (2, 3), (100, 90), (31, 250)]:
        # Of seven digits, which both types hold.
        image = 8 * torch.randint(64, 128, (1, CHANNELS, height, width), generator=generator)
        means, gated = program(image.to(type_))
        exact = image.double().mean((2, 3), keepdim=True).numpy()
        # Rows are added, then their sums, divided twice and rounded.
        bound = 2.0 ** -DIGITS[type_] + (height + width + 2) * 2.0**-SINGLE_DIGITS
        assert np.abs(means.double().numpy() / exact - 1).max() <= bound
        # A number that large has one for its sigmoid.
        torch.testing.assert_close(gated, image.to(type_), atol=0, rtol=0)
