"""Channel shuffles by a kernel on Vulkan, between convolutions, against float64."""

from __future__ import annotations

from copy import deepcopy

import iree.winograd
import numpy as np
import pytest
import torch
from iree.winograd.compiling.program import compile
from torch import nn
from wide import wide_combinations

UNIT_ROUNDOFF = 2.0**-24


def shuffled(image: torch.Tensor, groups: int) -> torch.Tensor:
    """Channels of an image's groups in turns."""
    batch, channels, *size = image.shape
    parts = image.reshape(batch, groups, channels // groups, *size)
    return parts.transpose(1, 2).reshape(batch, channels, *size)


class Shuffle(nn.Module):
    """Two units as ShuffleNetV2 has them, of which half of the channels is what it was."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels
        self.first = nn.Conv2d(3, 2 * channels, 1)
        self.units = nn.ModuleList(nn.Conv2d(channels, channels, 1) for _ in range(2))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.first(image)
        for unit in self.units:
            same, changed = x[:, : self.channels], x[:, self.channels :]
            x = shuffled(torch.cat([same, unit(changed)], 1), 2)
        return x


class Groups(nn.Module):
    """Groups of a convolution's outputs, shuffled for the next one."""

    def __init__(self, groups: int, channels: int) -> None:
        super().__init__()
        self.groups = groups
        self.first, self.second = nn.Conv2d(3, groups * channels, 1), nn.Conv2d(groups * channels, 4, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.second(shuffled(self.first(image), self.groups))
        return result


@pytest.mark.parametrize(
    ("model", "kernel"),
    [
        (Shuffle(6), b"winograd_interleave_160x2x6"),
        # Quads of groups whose number divides none, and of rows that are no whole quads.
        *wide_combinations([(Groups(3, 5), b"winograd_interleave_160x3x5")]),
    ],
    ids=["units", "groups"],
)
def test_shuffled(model: nn.Module, kernel: bytes, gpu_target: str, gpu_device: str) -> None:
    image = torch.randn((2, 3, 8, 10), generator=torch.Generator().manual_seed(0))
    exact = deepcopy(model).double().eval()(image.double()).detach().numpy()
    imported = iree.winograd.import_torch(model.eval(), image)
    program = bytes(compile(imported, target=gpu_target, strict=True))
    assert kernel in program
    result = np.asarray(iree.winograd.load(program, gpu_device)(image.numpy()))
    # A number has a rounding for each product on its way, and for each bias: 4 + 7 + 7, or 4 + 16.
    magnitudes = deepcopy(model).double()
    for parameter in magnitudes.parameters():
        parameter.data.abs_()
    bound = 1.01 * 20 * UNIT_ROUNDOFF * magnitudes(image.double().abs()).detach().numpy()
    assert (np.abs(result - exact) <= bound).all()
