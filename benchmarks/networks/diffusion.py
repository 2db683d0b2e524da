"""The decoder of Stable Diffusion's images (Rombach et al., CVPR 2022), as the library diffusers has it."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

_WIDTHS = (512, 512, 256, 128)
_BLOCKS = 3
"""Residual blocks of each resolution."""
_GROUPS = 32
_EPSILON = 1e-6
LATENT_CHANNELS = 4


class ResidualBlock(nn.Module):
    """Two convolutions of normalized groups, and what goes around them."""

    def __init__(self, channels: int, filters: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.GroupNorm(_GROUPS, each, _EPSILON) for each in (channels, filters))
        self.convolutions = nn.ModuleList(
            nn.Conv2d(each, filters, 3, padding=1) for each in (channels, filters)
        )
        self.shortcut = nn.Conv2d(channels, filters, 1) if channels != filters else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x
        for norm, convolution in zip(self.norms, self.convolutions, strict=True):
            y = convolution(functional.silu(norm(y)))
        result: torch.Tensor = self.shortcut(x) + y
        return result


class Attention(nn.Module):
    """Of one head on the pixels."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(_GROUPS, channels, _EPSILON)
        self.query, self.key, self.value, self.out = (nn.Linear(channels, channels) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pixels = self.norm(x).flatten(2).transpose(1, 2)
        heads = (each(pixels)[:, None] for each in (self.query, self.key, self.value))
        attended = self.out(functional.scaled_dot_product_attention(*heads)[:, 0])
        return x + attended.transpose(1, 2).reshape(x.shape)


class ConvolvedAttention(nn.Sequential):
    """Attention behind a convolution: a graph without one is left to the fallback."""

    def __init__(self, channels: int) -> None:
        super().__init__(nn.Conv2d(channels, channels, 3, padding=1), Attention(channels))


class NormalizedBetween(nn.Sequential):
    """Groups are normalized between two convolutions."""

    def __init__(self, channels: int) -> None:
        super().__init__(
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.GroupNorm(_GROUPS, channels, _EPSILON),
            nn.SiLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
        )


class Upsampling(nn.Module):
    """Nearest pixels at twice the size, and a convolution."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.convolution(functional.interpolate(x, scale_factor=2.0, mode="nearest"))
        return result


class VaeDecoder(nn.Sequential):
    """Latents of 4 channels to images of 3, eight times as wide and high."""

    def __init__(self) -> None:
        widest = _WIDTHS[0]
        layers: list[nn.Module] = [
            nn.Conv2d(LATENT_CHANNELS, LATENT_CHANNELS, 1),
            nn.Conv2d(LATENT_CHANNELS, widest, 3, padding=1),
            ResidualBlock(widest, widest),
            Attention(widest),
            ResidualBlock(widest, widest),
        ]
        channels = widest
        for stage, width in enumerate(_WIDTHS):
            layers += [Upsampling(channels)] if stage > 0 else []
            layers += [ResidualBlock(channels if block == 0 else width, width) for block in range(_BLOCKS)]
            channels = width
        super().__init__(
            *layers,
            nn.GroupNorm(_GROUPS, channels, _EPSILON),
            nn.SiLU(),
            nn.Conv2d(channels, 3, 3, padding=1),
        )
