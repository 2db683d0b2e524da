"""GoogLeNet (Szegedy et al., Going deeper with convolutions, CVPR 2015, table 1), as it is for inference.

The auxiliary classifiers serve training only and are left out; local response normalization is batch
normalization after every convolution, as in all later networks of the family.
"""

from __future__ import annotations

import torch
from torch import nn

# Per module: 1x1; 3x3 reduce, 3x3; 5x5 reduce, 5x5; pool projection. None is a pooling between stages.
_MODULES: tuple[tuple[int, int, int, int, int, int] | None, ...] = (
    (64, 96, 128, 16, 32, 32),
    (128, 128, 192, 32, 96, 64),
    None,
    (192, 96, 208, 16, 48, 64),
    (160, 112, 224, 24, 64, 64),
    (128, 128, 256, 24, 64, 64),
    (112, 144, 288, 32, 64, 64),
    (256, 160, 320, 32, 128, 128),
    None,
    (256, 160, 320, 32, 128, 128),
    (384, 192, 384, 48, 128, 128),
)


def convolution(channels: int, filters: int, size: int, stride: int = 1) -> nn.Sequential:
    """A convolution, batch normalization and ReLU."""
    return nn.Sequential(
        nn.Conv2d(channels, filters, size, stride, padding=size // 2, bias=False),
        nn.BatchNorm2d(filters),
        nn.ReLU(),
    )


class Inception(nn.Module):
    """Four branches side by side; `widths` are a row of the paper's table."""

    def __init__(self, channels: int, widths: tuple[int, int, int, int, int, int]) -> None:
        super().__init__()
        one, three_reduce, three, five_reduce, five, projection = widths
        self.branches = nn.ModuleList(
            [
                convolution(channels, one, 1),
                nn.Sequential(convolution(channels, three_reduce, 1), convolution(three_reduce, three, 3)),
                nn.Sequential(convolution(channels, five_reduce, 1), convolution(five_reduce, five, 5)),
                nn.Sequential(nn.MaxPool2d(3, 1, padding=1), convolution(channels, projection, 1)),
            ]
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([branch(x) for branch in self.branches], dim=1)


class GoogLeNet(nn.Module):
    """Images of 3 x 224 x 224 to 1000 classes."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [
            convolution(3, 64, 7, 2),
            nn.MaxPool2d(3, 2, padding=1),
            convolution(64, 64, 1),
            convolution(64, 192, 3),
            nn.MaxPool2d(3, 2, padding=1),
        ]
        channels = 192
        for widths in _MODULES:
            if widths is None:
                layers.append(nn.MaxPool2d(3, 2, padding=1))
                continue
            layers.append(Inception(channels, widths))
            channels = widths[0] + widths[2] + widths[4] + widths[5]
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(channels, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.classifier(self.features(x).mean(dim=(2, 3)))
        return result
