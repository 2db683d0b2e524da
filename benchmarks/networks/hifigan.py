"""The generator of HiFi-GAN, which makes sound of spectra (Kong et al., NeurIPS 2020), in its third size."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

_SLOPE = 0.1


class _ResidualBlock(nn.Module):
    """Dilated convolutions, each with the identity beside it."""

    def __init__(self, channels: int, kernel: int, dilations: tuple[int, ...]) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(
            nn.Conv1d(channels, channels, kernel, padding=dilation * (kernel // 2), dilation=dilation)
            for dilation in dilations
        )

    def forward(self, sound: torch.Tensor) -> torch.Tensor:
        for convolution in self.convolutions:
            sound = sound + convolution(functional.leaky_relu(sound, _SLOPE))
        return sound


class HifiGan(nn.Module):
    """From spectra of 80 frequencies, N x 80 x T, to sound, N x 1 x 256 T."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(80, 256, 7, padding=3)
        self.upsampling, self.blocks = nn.ModuleList(), nn.ModuleList()
        channels = 256
        for stride in (8, 8, 4):
            self.upsampling.append(
                nn.ConvTranspose1d(channels, channels // 2, 2 * stride, stride, padding=stride // 2)
            )
            channels //= 2
            self.blocks.append(
                nn.ModuleList(
                    _ResidualBlock(channels, kernel, dilations)
                    for kernel, dilations in ((3, (1, 2)), (5, (2, 6)), (7, (3, 12)))
                )
            )
        self.last = nn.Conv1d(channels, 1, 7, padding=3)

    def forward(self, spectra: torch.Tensor) -> torch.Tensor:
        sound = self.first(spectra)
        for upsampling, blocks in zip(self.upsampling, self.blocks, strict=True):
            sound = upsampling(functional.leaky_relu(sound, _SLOPE))
            sound = torch.stack([block(sound) for block in blocks]).mean(0)  # type: ignore[operator]
        return torch.tanh(self.last(functional.leaky_relu(sound)))
