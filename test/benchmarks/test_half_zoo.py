"""Networks in half precision, and how often their largest score is float64's."""

from __future__ import annotations

from types import MappingProxyType

import pytest
import torch
from torch import nn

from benchmarks import half_zoo
from benchmarks.networks import zoo
from benchmarks.networks.network import Network


def small() -> nn.Module:
    """Ten scores of an image, whose first convolution Winograd computes."""
    layers = nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 10, 1)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())


@pytest.mark.wide
def test_scores_are_counted_beside_torchs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zoo, "ZOO", MappingProxyType({"small": Network(small, (8, 12, 12))}))
    is_taking_gradients = torch.is_grad_enabled()
    row = half_zoo._measure("small", "bf16", 4)
    torch.set_grad_enabled(is_taking_gradients)
    assert (row["images"], row["layers"], row["left"]) == (4, 2, 0)
    # Ten scores of four images, each a few roundings of 2^-9 off.
    assert 0 < row["error"] < 2.0**-6 > row["torch_error"] > 0
    assert half_zoo._line(row).startswith(f"top-1 {row['agreeing']} of 4, torch {row['torch_agreeing']}; ")


def test_scores_that_agree_have_the_same_largest() -> None:
    scores = torch.tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])
    assert half_zoo._agreeing(scores, torch.tensor([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0]])) == 1
    of_several = half_zoo._scores(lambda image: [(image, image + 1), image], [(scores[0],), (scores[1],)])
    assert torch.equal(of_several, scores.double())
    assert half_zoo._line({"failure": "ended by SIGKILL"}) == "failed: ended by SIGKILL"


def test_each_pixel_of_a_segmented_image_has_scores() -> None:
    scores = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]], [[2.0, 1.0], [4.0, 3.0]]]])
    pixels = half_zoo._scores_of_pixels(lambda image: (image,), [(scores,), (scores + 1,)])
    assert pixels.shape == (8, 2)
    assert torch.equal(pixels.argmax(1), torch.tensor([1, 0, 1, 0] * 2))
    row = {"images": 2, "pixels": 8, "agreeing": 7, "error": 0.1, "torch_failure": "", "layers": 1, "left": 0}
    assert half_zoo._line(row).startswith("top-1 7 of 8; ")
