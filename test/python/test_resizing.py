"""Images that are resized, or have channels selected, against torch in float64."""

from __future__ import annotations

import iree.winograd as winograd
import numpy as np
import pytest
import torch
from torch.nn.functional import interpolate
from wide import wide

# Sizes that grow and shrink, by integers and not; channels that fill vectors and that don't.
SOURCE = (9, 12)
UNIT_ROUNDOFF = 2.0**-24
INDICES = torch.tensor([3, 0, 0, 4, 1, 7])


class Resizing(torch.nn.Module):
    """Resizes the result of a convolution, which has channels last, in every way."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, channels, 1)

    def forward(self, image: torch.Tensor) -> dict[str, torch.Tensor]:
        x = self.convolution(image)
        return {
            # What another operation follows is resized with channels last.
            "corners": interpolate(x, size=(32, 21), mode="bilinear", align_corners=True),
            "corners, channels last": relu_of(x, size=(32, 21), mode="bilinear", align_corners=True),
            "centers": interpolate(x, size=(7, 30), mode="bilinear", align_corners=False),
            "centers, channels last": relu_of(x, size=(7, 30), mode="bilinear", align_corners=False),
            "doubled": relu_of(x, scale_factor=2, mode="bilinear", align_corners=False),
            "one row": relu_of(x, size=(1, 12), mode="bilinear", align_corners=True),
            "nearest": interpolate(x, scale_factor=2, mode="nearest"),
            "nearest, channels last": relu_of(x, scale_factor=3, mode="nearest"),
            "nearest, rows": relu_of(x, size=(18, 12), mode="nearest"),
            "nearest, other sizes": relu_of(x, size=(18, 30), mode="nearest"),
            "cubic": interpolate(x, size=(18, 24), mode="bicubic", align_corners=False),
            "cubic, channels last": relu_of(x, size=(18, 24), mode="bicubic", align_corners=False),
            "selected": x.index_select(1, INDICES),
            "selected, channels last": torch.relu(x.index_select(1, INDICES)),
            "reversed": torch.relu(x.flip(3)),
            "twice": relu_of(interpolate(x, scale_factor=2, mode="nearest"), size=(7, 30), mode="bilinear"),
            "negated": -x[0].index_select(0, INDICES),
            "scaled": 2 * x.flatten().index_select(0, INDICES),
        }


def relu_of(x: torch.Tensor, **options: object) -> torch.Tensor:
    return torch.relu(interpolate(x, **options))  # type: ignore[arg-type]


def error_bound(model: Resizing, image: torch.Tensor) -> float:
    """The largest error that rounding may cause: of the convolution, of positions, of weights and their sums.

    A position is the result of four operations on numbers up to the size of the image that is read, and the
    weights of an element change by at most 4 per pixel and dimension: those of bicubic interpolation by
    |w'(0..1)| + |w'(1..2)| on either side, where |w'| is below 1.2. Sums have at most 16 terms in 2 stages,
    with weights whose magnitudes add up to at most 1.5 per dimension; factors are at most 2.
    """
    weights, bias = model.convolution.weight, model.convolution.bias
    assert bias is not None
    magnitude = torch.nn.functional.conv2d(image.abs(), weights.abs(), bias.abs()).max().item()
    positions = 2 * 4 * (4 * max(SOURCE))
    sums = 1.5**2 * (2 * 4 + 4)
    return UNIT_ROUNDOFF * magnitude * (1.5**2 * 5 + positions + sums)


@pytest.mark.parametrize("channels", [8, *wide([16])])
def test_resizing_agrees_with_float64(channels: int) -> None:
    torch.manual_seed(channels)
    model, image = Resizing(channels).eval(), torch.randn(1, 3, *SOURCE)
    program = winograd.compile(winograd.import_torch(model, image), target="cpu:haswell", strict=True)
    with torch.no_grad():
        bound = error_bound(model, image)
        expected = model.double()(image.double())
    results = winograd.load(program)(image.numpy())
    assert len(results) == len(expected)
    for (name, exact), result in zip(expected.items(), results, strict=True):
        np.testing.assert_allclose(np.asarray(result), exact.numpy(), atol=bound, rtol=0, err_msg=name)
