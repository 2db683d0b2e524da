"""U-Net (Ronneberger et al., MICCAI 2015, figure 1), padded instead of cropped, as it is mostly used."""

from __future__ import annotations

import torch
from torch import nn

_WIDTHS = (64, 128, 256, 512, 1024)


def _double_convolution(channels: int, filters: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, filters, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(filters, filters, 3, padding=1),
        nn.ReLU(),
    )


class UNet(nn.Module):
    """Images of one channel, whose sizes are multiples of 16, to maps of two classes."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList(
            _double_convolution(c, k) for c, k in zip((1, *_WIDTHS), _WIDTHS, strict=False)
        )
        wide = _WIDTHS[:0:-1]
        self.up = nn.ModuleList(nn.ConvTranspose2d(width, width // 2, 2, stride=2) for width in wide)
        self.merge = nn.ModuleList(_double_convolution(width, width // 2) for width in wide)
        self.classifier = nn.Conv2d(_WIDTHS[0], 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skips = []
        for convolutions in self.down[:-1]:
            x = convolutions(x)
            skips.append(x)
            x = torch.max_pool2d(x, 2)
        x = self.down[-1](x)
        for up, merge, skip in zip(self.up, self.merge, reversed(skips), strict=True):
            x = merge(torch.cat([skip, up(x)], dim=1))
        result: torch.Tensor = self.classifier(x)
        return result
