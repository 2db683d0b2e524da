"""ConvNeXt-T (Liu et al., A ConvNet for the 2020s, CVPR 2022, section 2 and table 9)."""

from __future__ import annotations

import torch
from torch import nn

_DEPTHS = (3, 3, 9, 3)
_WIDTHS = (96, 192, 384, 768)
_EPSILON = 1e-6


class _ChannelNorm(nn.LayerNorm):
    """Layer normalization of images, N x C x H x W, over channels."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels, eps=_EPSILON)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class _Block(nn.Module):
    """Depthwise 7x7 convolution, normalization, and two layers on the channels of each pixel.

    The scale of a channel is 1, not 1e-6 as before training: blocks would count for nothing.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.pointwise = nn.Sequential(
            nn.LayerNorm(channels, eps=_EPSILON),
            nn.Linear(channels, 4 * channels),
            nn.GELU(),
            nn.Linear(4 * channels, channels),
        )
        self.scale = nn.Parameter(torch.ones(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pixels = self.pointwise(self.depthwise(x).permute(0, 2, 3, 1))
        return x + (self.scale * pixels).permute(0, 3, 1, 2)


class ConvNeXt(nn.Module):
    """Images of 3 channels, whose sizes are multiples of 32, to 1000 classes."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Conv2d(3, _WIDTHS[0], 4, stride=4), _ChannelNorm(_WIDTHS[0])]
        for stage, (depth, width) in enumerate(zip(_DEPTHS, _WIDTHS, strict=True)):
            if stage > 0:
                narrow = _WIDTHS[stage - 1]
                layers += [_ChannelNorm(narrow), nn.Conv2d(narrow, width, 2, stride=2)]
            layers += [_Block(width) for _ in range(depth)]
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.LayerNorm(_WIDTHS[-1], eps=_EPSILON), nn.Linear(_WIDTHS[-1], 1000))
        for module in self.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                nn.init.trunc_normal_(module.weight, std=0.02)
                assert module.bias is not None
                nn.init.zeros_(module.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.classifier(self.features(x).mean((2, 3)))
        return result
