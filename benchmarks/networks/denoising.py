"""The U-Net of Stable Diffusion 1.5 (Rombach et al., CVPR 2022), as diffusers' UNet2DConditionModel."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional

from benchmarks.networks.diffusion import LATENT_CHANNELS

_WIDTHS = (320, 640, 1280, 1280)
_BLOCKS = 2
"""Residual blocks of each resolution on the way down, one more on the way up."""
_GROUPS = 32
_HEADS = 8
_TIME_CHANNELS = 4 * _WIDTHS[0]
_LONGEST_PERIOD = 10000.0
TOKENS, TEXT_CHANNELS = 77, 768
_STEP = 981


def conditions(batch: int) -> tuple[torch.Tensor, torch.Tensor]:
    """What the U-Net takes beside latents: the time step, and texts, `batch` x `TOKENS` x `TEXT_CHANNELS`."""
    return torch.tensor(_STEP), torch.randn(batch, TOKENS, TEXT_CHANNELS)


class _TimeEmbedding(nn.Module):
    """Cosines and sines of the step, two linear layers behind."""

    def __init__(self) -> None:
        super().__init__()
        self.linear_1 = nn.Linear(_WIDTHS[0], _TIME_CHANNELS)
        self.linear_2 = nn.Linear(_TIME_CHANNELS, _TIME_CHANNELS)

    def forward(self, step: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        count = _WIDTHS[0] // 2
        exponents = torch.arange(count, dtype=torch.float32, device=x.device) / count
        angles = step.expand(x.shape[0])[:, None].float() * torch.exp(-math.log(_LONGEST_PERIOD) * exponents)
        waves = torch.cat([torch.cos(angles), torch.sin(angles)], dim=-1).to(x.dtype)
        result: torch.Tensor = self.linear_2(functional.silu(self.linear_1(waves)))
        return result


class _ResidualBlock(nn.Module):
    def __init__(self, channels: int, filters: int) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(_GROUPS, channels)
        self.conv1 = nn.Conv2d(channels, filters, 3, padding=1)
        self.time_emb_proj = nn.Linear(_TIME_CHANNELS, filters)
        self.norm2 = nn.GroupNorm(_GROUPS, filters)
        self.conv2 = nn.Conv2d(filters, filters, 3, padding=1)
        self.conv_shortcut = nn.Conv2d(channels, filters, 1) if channels != filters else nn.Identity()

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        y = self.conv1(functional.silu(self.norm1(x)))
        y = y + self.time_emb_proj(functional.silu(time))[:, :, None, None]
        y = self.conv2(functional.silu(self.norm2(y)))
        result: torch.Tensor = self.conv_shortcut(x) + y
        return result


class _Attention(nn.Module):
    def __init__(self, channels: int, context_channels: int) -> None:
        super().__init__()
        self.to_q = nn.Linear(channels, channels, bias=False)
        self.to_k = nn.Linear(context_channels, channels, bias=False)
        self.to_v = nn.Linear(context_channels, channels, bias=False)
        self.to_out = nn.Linear(channels, channels)

    def forward(self, x: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        heads = (
            each.unflatten(-1, (_HEADS, -1)).transpose(1, 2)
            for each in (self.to_q(x), self.to_k(context), self.to_v(context))
        )
        attended = functional.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2)
        result: torch.Tensor = self.to_out(attended)
        return result


class _GatedGelu(nn.Module):
    def __init__(self, channels: int, filters: int) -> None:
        super().__init__()
        self.proj = nn.Linear(channels, 2 * filters)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, gate = self.proj(x).chunk(2, dim=-1)
        result: torch.Tensor = y * functional.gelu(gate)
        return result


class _TransformerBlock(nn.Module):
    """Attention of the pixels, to the text, and a gated layer."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(channels)
        self.attn1 = _Attention(channels, channels)
        self.norm2 = nn.LayerNorm(channels)
        self.attn2 = _Attention(channels, TEXT_CHANNELS)
        self.norm3 = nn.LayerNorm(channels)
        self.ff = nn.Sequential(_GatedGelu(channels, 4 * channels), nn.Linear(4 * channels, channels))

    def forward(self, x: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        y = self.norm1(x)
        x = self.attn1(y, y) + x
        x = self.attn2(self.norm2(x), text) + x
        result: torch.Tensor = self.ff(self.norm3(x)) + x
        return result


class _Transformer(nn.Module):
    """A block of a transformer on the pixels of an image."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(_GROUPS, channels, eps=1e-6)
        self.proj_in = nn.Conv2d(channels, channels, 1)
        self.block = _TransformerBlock(channels)
        self.proj_out = nn.Conv2d(channels, channels, 1)

    def forward(self, x: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        y = self.proj_in(self.norm(x))
        pixels = self.block(y.permute(0, 2, 3, 1).flatten(1, 2), text)
        y = pixels.unflatten(1, x.shape[2:]).permute(0, 3, 1, 2).contiguous()
        result: torch.Tensor = self.proj_out(y) + x
        return result


class _Stage(nn.Module):
    """The residual blocks of a resolution and, but at the lowest one, a transformer behind each."""

    def __init__(self, channels: list[int], filters: int, attends: bool) -> None:
        super().__init__()
        self.attentions = nn.ModuleList(_Transformer(filters) for _ in channels if attends)
        self.resnets = nn.ModuleList(_ResidualBlock(each, filters) for each in channels)

    def block(self, number: int, x: torch.Tensor, time: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        """The result of a block, and its transformer, for `x`."""
        x = self.resnets[number](x, time)
        return self.attentions[number](x, text) if self.attentions else x


class DownStage(_Stage):
    """Gives what it makes of an image, every result on the way, and a smaller image behind unless `last`."""

    def __init__(self, channels: int, filters: int, attends: bool, last: bool) -> None:
        super().__init__([channels] + [filters] * (_BLOCKS - 1), filters, attends)
        self.downsampler = None if last else nn.Conv2d(filters, filters, 3, stride=2, padding=1)

    def forward(self, x: torch.Tensor, time: torch.Tensor, text: torch.Tensor) -> list[torch.Tensor]:
        results = []
        for number in range(len(self.resnets)):
            x = self.block(number, x, time, text)
            results.append(x)
        return results if self.downsampler is None else [*results, self.downsampler(x)]


class MiddleStage(nn.Module):
    """A transformer between two residual blocks."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.attention = _Transformer(channels)
        self.resnets = nn.ModuleList(_ResidualBlock(channels, channels) for _ in range(2))

    def forward(self, x: torch.Tensor, time: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        x = self.attention(self.resnets[0](x, time), text)
        result: torch.Tensor = self.resnets[1](x, time)
        return result


class UpStage(_Stage):
    """Takes an image and results of a `DownStage`, of as many channels as `skipped`, the last one first."""

    def __init__(self, channels: int, skipped: list[int], filters: int, attends: bool, last: bool) -> None:
        widths = [channels] + [filters] * (len(skipped) - 1)
        super().__init__([sum(both) for both in zip(widths, skipped, strict=True)], filters, attends)
        self.upsampler = None if last else nn.Conv2d(filters, filters, 3, padding=1)

    def forward(
        self, x: torch.Tensor, skipped: list[torch.Tensor], time: torch.Tensor, text: torch.Tensor
    ) -> torch.Tensor:
        for number, each in enumerate(skipped):
            x = self.block(number, torch.cat([x, each], dim=1), time, text)
        if self.upsampler is None:
            return x
        result: torch.Tensor = self.upsampler(functional.interpolate(x, scale_factor=2.0, mode="nearest"))
        return result


class DenoisingUNet(nn.Module):
    """The noise in latents of 4 channels, given the time step and the encoding of a text."""

    def __init__(self) -> None:
        super().__init__()
        last = len(_WIDTHS) - 1
        self.conv_in = nn.Conv2d(LATENT_CHANNELS, _WIDTHS[0], 3, padding=1)
        self.time_embedding = _TimeEmbedding()
        self.down_blocks, self.up_blocks = nn.ModuleList(), nn.ModuleList()
        channels, skipped = _WIDTHS[0], [_WIDTHS[0]]
        for number, width in enumerate(_WIDTHS):
            self.down_blocks.append(DownStage(channels, width, number < last, number == last))
            skipped += [width] * (_BLOCKS + (number < last))
            channels = width
        self.mid_block = MiddleStage(channels)
        for number, width in reversed(list(enumerate(_WIDTHS))):
            read = [skipped.pop() for _ in range(_BLOCKS + 1)]
            self.up_blocks.append(UpStage(channels, read, width, number < last, number == 0))
            channels = width
        self.conv_norm_out = nn.GroupNorm(_GROUPS, channels)
        self.conv_out = nn.Conv2d(channels, LATENT_CHANNELS, 3, padding=1)

    def forward(self, latents: torch.Tensor, step: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        time = self.time_embedding(step, latents)
        x = self.conv_in(latents)
        skipped = [x]
        for down in self.down_blocks:
            skipped += down(x, time, text)
            x = skipped[-1]
        x = self.mid_block(x, time, text)
        for up in self.up_blocks:
            x = up(x, [skipped.pop() for _ in up.resnets], time, text)
        result: torch.Tensor = self.conv_out(functional.silu(self.conv_norm_out(x)))
        return result
