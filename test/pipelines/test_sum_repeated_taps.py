"""Convolutions of images whose pixels are repeated, on a GPU: of whole numbers."""

from __future__ import annotations

import iree.winograd
import pytest
import torch
from iree.winograd.pipelines.for_target import sum_repeated_taps
from positive_weights import with_positive_weights
from wide import wide_combinations


class Enlarged(torch.nn.Module):
    """Pixels are repeated, and convolved by a filter of small integers."""

    def __init__(self, kernel: tuple[int, int], padding: tuple[int, int], times: tuple[int, int]) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(8, 12, kernel, padding=padding)
        self.times = tuple(map(float, times))
        generator = torch.Generator().manual_seed(1)
        for parameter in self.convolution.parameters():
            parameter.requires_grad_(False)
            parameter.copy_(torch.randint(-3, 4, parameter.shape, generator=generator))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        larger = torch.nn.functional.interpolate(image, scale_factor=self.times, mode="nearest")
        result: torch.Tensor = self.convolution(larger)
        return result


@pytest.mark.parametrize(
    ("kernel", "padding", "times", "type_"),
    [
        ((3, 3), (1, 1), (2, 2), torch.float32),
        *wide_combinations(
            [
                ((3, 3), (1, 1), (2, 2), torch.float16),
                ((5, 4), (2, 0), (3, 2), torch.float32),
            ]
        ),
    ],
)
def test_repeated_pixels_are_convolved_once(
    kernel: tuple[int, int],
    padding: tuple[int, int],
    times: tuple[int, int],
    type_: torch.dtype,
    gpu_target: str,
    gpu_device: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sum_repeated_taps, "_FEWEST_PIXELS", 1)
    monkeypatch.setattr(sum_repeated_taps, "_LEAST_SAVED", 1)
    model = Enlarged(kernel, padding, times).to(type_)
    values = torch.randint(-3, 4, (2, 8, 7, 6), generator=torch.Generator().manual_seed(0))
    image = values.to(type_)
    compiled = iree.winograd.compile(
        iree.winograd.import_torch(model, image), target=gpu_target, output_tile=1, strict=True
    )
    height, width = (-(-(size + count - 1) // count) for size, count in zip(kernel, times, strict=True))
    assert f"_{height}x{width}_".encode() in compiled
    result = torch.as_tensor(iree.winograd.load(compiled, device=gpu_device)(image))
    # Matrix units truncate each sum of f32 once a term, of up to so many; halves have these sums exactly.
    terms = model.convolution.weight[0].numel()
    bound = terms * 2.0**-23 * with_positive_weights(model.double())(values.double().abs())
    assert bound.max() < 0.5
    assert ((result.double() - model(values.double())).abs() <= bound).all()
