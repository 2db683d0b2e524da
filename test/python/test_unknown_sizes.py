"""Networks whose images come in any size: one program each, from torch and from ONNX."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path

import iree.winograd as winograd
import numpy as np
import pytest
import torch
from iree.winograd import ImportedModel
from torch import nn

pytestmark = pytest.mark.wide


def denoiser() -> nn.Module:
    """Layers of one size, as in DnCNN."""
    layers: list[nn.Module] = [nn.Conv2d(3, 16, 3, padding=1), nn.ReLU()]
    for _ in range(3):
        layers += [nn.Conv2d(16, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    return nn.Sequential(*layers, nn.Conv2d(16, 3, 3, padding=1))


class Residual(nn.Module):
    """A stem, pooling, and blocks of half the size with shortcuts, as in ResNet."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 7, 2, 3), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.first = nn.Conv2d(16, 32, 3, 2, 1)
        self.second = nn.Conv2d(32, 32, 3, padding=1)
        self.shortcut = nn.Conv2d(16, 32, 1, 2)
        self.head = nn.Linear(32, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        features = self.stem(image)
        block = torch.relu(self.shortcut(features) + self.second(torch.relu(self.first(features))))
        result: torch.Tensor = self.head(nn.functional.adaptive_avg_pool2d(block, 1).flatten(1))
        return result


class Segmenter(nn.Module):
    """Pooling, a transposed convolution and a concatenation, as in U-Net."""

    def __init__(self) -> None:
        super().__init__()
        self.outer = nn.Conv2d(3, 8, 3, padding=1)
        self.inner = nn.Conv2d(8, 16, 3, padding=1)
        self.up = nn.ConvTranspose2d(16, 8, 2, 2)
        self.last = nn.Conv2d(16, 4, 3, padding=1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        outer = torch.relu(self.outer(image))
        inner = torch.relu(self.inner(nn.functional.max_pool2d(outer, 2)))
        result: torch.Tensor = self.last(torch.cat([self.up(inner), outer], 1))
        return result


NETWORKS = {"denoiser": denoiser, "residual": Residual, "segmenter": Segmenter}
SIZES = [(48, 40), (34, 34), (50, 126), (142, 38), (36, 44)]


def from_torch(model: nn.Module, path: Path) -> ImportedModel:
    sizes = {2: 2 * torch.export.Dim("height", min=17), 3: 2 * torch.export.Dim("width", min=17)}
    exported = torch.export.export(model, (torch.zeros(1, 3, 48, 40),), dynamic_shapes=(sizes,))
    return winograd.import_torch(exported)


def from_onnx(model: nn.Module, path: Path) -> ImportedModel:
    torch.onnx.export(
        model,
        (torch.zeros(1, 3, 48, 40),),
        str(path),
        dynamo=False,
        input_names=["image"],
        dynamic_axes={"image": {2: "height", 3: "width"}},
    )
    return winograd.import_onnx(path)


@pytest.mark.parametrize("imported", [from_torch, from_onnx])
@pytest.mark.parametrize("name", NETWORKS)
def test_all_convolutions_are_taken_and_right(name: str, imported: object, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = NETWORKS[name]().eval()
    exact = copy.deepcopy(model).double()
    assert callable(imported)
    source = imported(model, tmp_path / "network.onnx")
    with warnings.catch_warnings():
        # A convolution that is left is one.
        warnings.simplefilter("error")
        compiled = winograd.compile(source, threads=1)
    program = winograd.load(compiled, device="local-sync")
    for size in SIZES:
        image = torch.randn(1, 3, *size)
        with torch.no_grad():
            expected = exact(image.double()).numpy()
        result = np.asarray(program(image.numpy()))
        assert result.shape == expected.shape
        # Sums of at most 147 products in each of at most 5 layers, one after the other.
        assert np.abs(result - expected).max() <= 5 * 147 * 2.0**-24 * np.abs(expected).max()
