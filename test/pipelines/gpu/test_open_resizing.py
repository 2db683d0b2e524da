"""GPU kernels that resize images whose sizes are known only at run time, at positions that they compute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import iree.winograd
import pytest
import torch
from torch import nn
from torch.nn import functional
from wide import sampled

UNIT_ROUNDOFF = 2.0**-24
_POSITION_ROUNDINGS = 4
"""Of a position, as torch computes it: of the scale, a product, and two sums."""
_SLOPE = 2.0
"""What a pixel changes at most by a step of its position, of pixels whose absolute values are at most 1."""


class Resized(nn.Module):
    """A layer that copies its image, and what is resized of that, by `options`, to a size or by a scale.

    Both are results: matrix units keep 22 bits of what they copy.
    """

    def __init__(self, rank: int, channels: int, options: Mapping[str, Any]) -> None:
        super().__init__()
        layers = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
        self.options = options
        self.first = layers[rank - 1](channels, channels, 1, bias=False)
        self.first.weight.data.copy_(torch.eye(channels).reshape(channels, channels, *[1] * rank))

    def forward(self, image: torch.Tensor, like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        copied = self.first(image)
        return copied, self.resized(copied, like)

    def resized(self, image: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        size = {} if "scale_factor" in self.options else {"size": like.shape[2:]}
        return functional.interpolate(image, **size, **self.options)


SIZES = (((5, 7, 3), (9, 6, 5)), ((1, 2, 2), (3, 1, 2)), ((1, 1, 1), (1, 2, 1)), ((12, 5, 4), (23, 17, 9)))
"""Of images, and those that they get; of fewer dimensions the first."""
CASES: tuple[tuple[int, int, dict[str, Any]], ...] = (
    (2, 8, {"mode": "bilinear"}),
    (2, 8, {"mode": "bilinear", "align_corners": True}),
    (2, 8, {"mode": "bilinear", "scale_factor": 2.0}),
    (2, 6, {"mode": "bilinear", "scale_factor": 1.5}),
    (1, 12, {"mode": "linear", "scale_factor": 2.0}),
    (3, 8, {"mode": "trilinear"}),
    (2, 8, {"scale_factor": 2.0}),
    (2, 20, {"mode": "nearest-exact"}),
)


HALF_ROUNDINGS = 4
"""Of numbers below one, along a dimension, in half precision: of two weights, a product and a sum."""


@pytest.mark.parametrize("case", sampled(CASES, CASES[:1]), ids=str)
def test_agrees_with_float64_at_all_sizes(
    case: tuple[int, int, dict[str, Any]], gpu_target: str, gpu_device: str
) -> None:
    check(case, torch.float32, gpu_target, gpu_device)


@pytest.mark.matrix_units
@pytest.mark.parametrize("type_", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("case", [CASES[0], CASES[3], CASES[4], CASES[6]], ids=str)
def test_half_precision_is_resized_as_such(
    case: tuple[int, int, dict[str, Any]], type_: torch.dtype, gpu_target: str, gpu_device: str
) -> None:
    """On CUDA, by the same kernels."""
    check(case, type_, gpu_target, gpu_device)


def check(case: tuple[int, int, dict[str, Any]], type_: torch.dtype, target: str, device: str) -> None:
    """Compares with what float64 makes of the copied image."""
    rank, channels, options = case
    model = Resized(rank, channels, options).eval().to(type_)
    generator = torch.Generator().manual_seed(0)
    example = [torch.randn(1, channels, *size[:rank]).to(type_) for size in ((6, 8, 7), (13, 11, 12))]
    dimensions = [{2 + d: torch.export.Dim(f"{name}_{d}") for d in range(rank)} for name in ("of", "to")]
    program = iree.winograd.import_torch(
        torch.export.export(model, tuple(example), dynamic_shapes=tuple(dimensions))
    )
    compiled = iree.winograd.compile(program, target=target, strict=True)
    assert compiled is not None
    assert b"winograd_blended" in compiled or b"winograd_selected" in compiled
    loaded = iree.winograd.load(compiled, device=device)
    for of, to in SIZES:
        image = (torch.rand((1, channels, *of[:rank]), generator=generator) * 2 - 1).to(type_)
        like = torch.zeros(1, channels, *to[:rank]).to(type_)
        copied, result = (each.double() for each in loaded.main(image, like))
        assert (copied - image.double()).abs().max() <= 2.0**-21
        exact = model.resized(copied, like.double())
        # Of nearest elements nothing is computed but positions, which decide.
        bound = 0.0
        if options.get("mode", "nearest") in ("linear", "bilinear", "trilinear"):
            shift = _POSITION_ROUNDINGS * UNIT_ROUNDOFF * max(*of[:rank], *to[:rank])
            bound = 1.01 * (rank * _SLOPE * shift + (2 * rank + 2**rank + 1) * UNIT_ROUNDOFF)
            if type_ != torch.float32:
                bound += 1.02 * rank * HALF_ROUNDINGS * torch.finfo(type_).eps / 2
        assert (result - exact).abs().max() <= bound
