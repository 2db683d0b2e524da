"""Small networks of what newer ones are made of, each written as its authors do."""

from __future__ import annotations

from types import MappingProxyType

import torch
from torch import nn
from torch.nn import functional

from benchmarks.networks.network import Network


class _LayerNorm2d(nn.LayerNorm):
    """Over the channels of N x C x H x W."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class _ConvNeXtBlock(nn.Module):
    """A depthwise 7x7 convolution and a scaled inverted bottleneck (Liu et al., CVPR 2022, figure 4)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.expand = nn.Linear(width, 4 * width)
        self.project = nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((width,), 0.5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.scale * self.project(functional.gelu(self.expand(y)))
        return x + y.permute(0, 3, 1, 2)


def convnext() -> nn.Module:
    """Two stages, the first on patches of 4x4."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 4, stride=4),
        _LayerNorm2d(32),
        *(_ConvNeXtBlock(32) for _ in range(2)),
        _LayerNorm2d(32),
        nn.Conv2d(32, 64, 2, stride=2),
        *(_ConvNeXtBlock(64) for _ in range(2)),
    )


class _SqueezeExcitation(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(width, width // 4, 1)
        self.excite = nn.Conv2d(width // 4, width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.relu(self.squeeze(functional.adaptive_avg_pool2d(x, 1)))
        return x * functional.hardsigmoid(self.excite(y))


def _normalized(channels: int, filters: int, size: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, filters, size, stride, size // 2, groups=groups, bias=False),
        nn.BatchNorm2d(filters),
    )


class _InvertedResidual(nn.Module):
    """Expansion, depthwise convolution, excitation, projection (Howard et al., ICCV 2019, figure 4)."""

    def __init__(self, channels: int, filters: int, size: int, stride: int) -> None:
        super().__init__()
        width = 4 * channels
        self.has_shortcut = stride == 1 and channels == filters
        self.layers = nn.Sequential(
            _normalized(channels, width, 1),
            nn.Hardswish(),
            _normalized(width, width, size, stride, groups=width),
            nn.Hardswish(),
            _SqueezeExcitation(width),
            _normalized(width, filters, 1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layers(x)
        return x + y if self.has_shortcut else y


def inverted_residuals() -> nn.Module:
    """The start of a MobileNetV3, and its classifier."""
    return nn.Sequential(
        _normalized(3, 16, 3, stride=2),
        nn.Hardswish(),
        _InvertedResidual(16, 24, 3, stride=2),
        _InvertedResidual(24, 24, 3, stride=1),
        _InvertedResidual(24, 40, 5, stride=2),
        _InvertedResidual(40, 40, 5, stride=1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(40, 100),
    )


def transposed_decoder() -> nn.Module:
    """Transposed convolutions of every habit: 4x4 (DCGAN), 3x3 with output padding (ERFNet), 2x2 (U-Net)."""
    return nn.Sequential(
        nn.ConvTranspose2d(64, 48, 4, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(48),
        nn.ReLU(),
        nn.ConvTranspose2d(48, 32, 3, stride=2, padding=1, output_padding=1),
        nn.BatchNorm2d(32),
        nn.LeakyReLU(0.2),
        nn.ConvTranspose2d(32, 16, 2, stride=2),
        nn.ReLU(),
        nn.ConvTranspose2d(16, 16, 5, stride=1, padding=2, groups=4),
        nn.ReLU(),
        nn.Conv2d(16, 3, 3, padding=1),
        nn.Tanh(),
    )


class _DiffusionResidual(nn.Module):
    """Normalization of groups, SiLU, convolution, twice; time in between (Ho et al., 2020, appendix B)."""

    def __init__(self, channels: int, filters: int, time: int) -> None:
        super().__init__()
        self.first = nn.Sequential(
            nn.GroupNorm(8, channels), nn.SiLU(), nn.Conv2d(channels, filters, 3, padding=1)
        )
        self.time = nn.Linear(time, filters)
        self.second = nn.Sequential(
            nn.GroupNorm(8, filters), nn.SiLU(), nn.Conv2d(filters, filters, 3, padding=1)
        )
        self.shortcut = nn.Conv2d(channels, filters, 1) if channels != filters else nn.Identity()

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        y = self.first(x) + self.time(functional.silu(time))[:, :, None, None]
        result: torch.Tensor = self.second(y) + self.shortcut(x)
        return result


class _SpatialAttention(nn.Module):
    """Attention of each pixel to all others."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(8, width)
        self.projections = nn.Conv2d(width, 3 * width, 1)
        self.output = nn.Conv2d(width, width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.projections(self.norm(x)).flatten(2).transpose(1, 2).chunk(3, dim=2)
        weights = torch.softmax(query @ key.transpose(1, 2) / query.shape[2] ** 0.5, dim=2)
        return x + self.output((weights @ value).transpose(1, 2).reshape(x.shape))


class DiffusionUNet(nn.Module):
    """Two levels, attention between them, for a latent image at one point in time."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("time", torch.randn(1, 64))
        self.stem = nn.Conv2d(4, 32, 3, padding=1)
        self.down = _DiffusionResidual(32, 32, 64)
        self.halve = nn.Conv2d(32, 64, 3, stride=2, padding=1)
        self.middle = _DiffusionResidual(64, 64, 64)
        self.attention = _SpatialAttention(64)
        self.widen = nn.Conv2d(64, 32, 3, padding=1)
        self.up = _DiffusionResidual(64, 32, 64)
        self.head = nn.Sequential(nn.GroupNorm(8, 32), nn.SiLU(), nn.Conv2d(32, 4, 3, padding=1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        time = self.get_buffer("time")
        fine = self.down(self.stem(x), time)
        coarse = self.attention(self.middle(self.halve(fine), time))
        doubled = self.widen(functional.interpolate(coarse, scale_factor=2.0, mode="nearest"))
        result: torch.Tensor = self.head(self.up(torch.cat([doubled, fine], dim=1), time))
        return result


class _GatedResidual(nn.Module):
    """A dilated convolution gated by its other half (van den Oord et al., WaveNet, 2016, section 2.3)."""

    def __init__(self, width: int, dilation: int) -> None:
        super().__init__()
        self.dilated = nn.Conv1d(width, 2 * width, 3, padding=dilation, dilation=dilation)
        self.mix = nn.Conv1d(width, width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        signal, gate = self.dilated(x).chunk(2, dim=1)
        return x + self.mix(torch.tanh(signal) * torch.sigmoid(gate))


def audio_stack() -> nn.Module:
    """Samples to features and back: one dimension, strided, dilated, depthwise and transposed."""
    return nn.Sequential(
        nn.Conv1d(1, 32, 16, stride=8, padding=4),
        nn.ELU(),
        *(_GatedResidual(32, dilation) for dilation in (1, 2, 4)),
        nn.Conv1d(32, 32, 31, padding=15, groups=32),
        nn.GroupNorm(4, 32),
        nn.SiLU(),
        nn.ConvTranspose1d(32, 1, 16, stride=8, padding=4),
    )


class _SplitResidual(nn.Module):
    """Convolutions in space, then in time (Tran et al., R(2+1)D, CVPR 2018, section 3.5)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv3d(width, width, (1, 3, 3), padding=(0, 1, 1), bias=False),
            nn.BatchNorm3d(width),
            nn.ReLU(),
            nn.Conv3d(width, width, (3, 1, 1), padding=(1, 0, 0), bias=False),
            nn.BatchNorm3d(width),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + self.layers(x))


def video_stack() -> nn.Module:
    """A film's frames to classes, by convolutions split and whole."""
    return nn.Sequential(
        nn.Conv3d(3, 16, (3, 7, 7), stride=(1, 2, 2), padding=(1, 3, 3), bias=False),
        nn.BatchNorm3d(16),
        nn.ReLU(),
        nn.MaxPool3d((1, 2, 2)),
        _SplitResidual(16),
        nn.Conv3d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        _SplitResidual(32),
        nn.AdaptiveAvgPool3d(1),
        nn.Flatten(),
        nn.Linear(32, 10),
    )


class VisionTransformer(nn.Module):
    """Patches as words behind that of the class, and one encoder layer (Dosovitskiy et al., ICLR 2021)."""

    def __init__(self, width: int = 64, patches: int = 36) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, stride=16)
        self.label = nn.Parameter(torch.randn(1, 1, width))
        self.positions = nn.Parameter(torch.randn(1, patches + 1, width))
        self.norm = nn.LayerNorm(width)
        self.attention = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.head = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        words = self.patches(x).flatten(2).transpose(1, 2)
        words = torch.cat([self.label.expand(words.shape[0], -1, -1), words], dim=1) + self.positions
        query, key, value = self.attention(self.norm(words)).chunk(3, dim=2)
        weights = torch.softmax(query @ key.transpose(1, 2) / query.shape[2] ** 0.5, dim=2)
        words = words + self.output(weights @ value)
        words = words + self.mlp(words)
        result: torch.Tensor = self.head(words[:, 0])
        return result


class SharedHead(nn.Module):
    """A head that all levels of a pyramid share (Lin et al., RetinaNet, ICCV 2017), in two results each."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 32, 3, stride=2, padding=1), nn.ReLU())
        self.down = nn.Sequential(nn.Conv2d(32, 32, 3, stride=2, padding=1), nn.ReLU())
        self.head = nn.Sequential(nn.Conv2d(32, 32, 3, padding=1), nn.ReLU())
        self.classes = nn.Conv2d(32, 8, 3, padding=1)
        self.boxes = nn.Conv2d(32, 4, 3, padding=1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        fine = self.stem(x)
        levels = [self.head(level) for level in (fine, self.down(fine))]
        return tuple(result(level) for level in levels for result in (self.classes, self.boxes))


class RecurrentConvolution(nn.Module):
    """A gated recurrent unit of convolutions (Ballas et al., 2016): one set of filters in every step."""

    def __init__(self, width: int = 16, steps: int = 3) -> None:
        super().__init__()
        self.steps = steps
        self.encode = nn.Conv2d(3, width, 3, padding=1)
        self.gates = nn.Conv2d(2 * width, 2 * width, 3, padding=1)
        self.candidate = nn.Conv2d(2 * width, width, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features = self.encode(x)
        state = torch.zeros_like(features)
        for _ in range(self.steps):
            update, reset = torch.sigmoid(self.gates(torch.cat([features, state], dim=1))).chunk(2, dim=1)
            candidate = torch.tanh(self.candidate(torch.cat([features, reset * state], dim=1)))
            state = (1 - update) * state + update * candidate
        return state


BLOCKS = MappingProxyType(
    {
        "convnext": Network(convnext, (3, 96, 96)),
        "inverted_residuals": Network(inverted_residuals, (3, 96, 96)),
        "transposed_decoder": Network(transposed_decoder, (64, 8, 8)),
        "diffusion_unet": Network(DiffusionUNet, (4, 32, 32)),
        "audio_stack": Network(audio_stack, (1, 4096)),
        "video_stack": Network(video_stack, (3, 8, 56, 56)),
        "vision_transformer": Network(VisionTransformer, (3, 96, 96)),
        "shared_head": Network(SharedHead, (3, 64, 64)),
        "recurrent_convolution": Network(RecurrentConvolution, (3, 32, 32)),
    }
)
"""The networks by name."""
