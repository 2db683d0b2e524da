"""A detector of the structure of YOLOv8's smallest: split bottlenecks, a pyramid, a head for each scale."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

_CLASSES = 80
_DISTANCES = 16
"""Values that each side of a box is a distribution over."""


class _Convolution(nn.Sequential):
    def __init__(self, channels: int, outputs: int, kernel: int = 1, stride: int = 1) -> None:
        super().__init__(
            nn.Conv2d(channels, outputs, kernel, stride, kernel // 2, bias=False),
            nn.BatchNorm2d(outputs),
            nn.SiLU(),
        )


class _SplitBottlenecks(nn.Module):
    """Half of the channels go through bottlenecks, and all that come out of these are joined."""

    def __init__(self, channels: int, outputs: int, bottlenecks: int, *, adds: bool) -> None:
        super().__init__()
        half = outputs // 2
        self.adds = adds
        self.enter = _Convolution(channels, 2 * half)
        self.bottlenecks = nn.ModuleList(
            nn.Sequential(_Convolution(half, half, 3), _Convolution(half, half, 3))
            for _ in range(bottlenecks)
        )
        self.leave = _Convolution((2 + bottlenecks) * half, outputs)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        parts = list(self.enter(images).chunk(2, 1))
        for bottleneck in self.bottlenecks:
            computed = bottleneck(parts[-1])
            parts.append(parts[-1] + computed if self.adds else computed)
        joined: torch.Tensor = self.leave(torch.cat(parts, 1))
        return joined


class _PyramidPooling(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.enter = _Convolution(channels, channels // 2)
        self.leave = _Convolution(2 * channels, channels)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        parts = [self.enter(images)]
        for _ in range(3):
            parts.append(functional.max_pool2d(parts[-1], 5, 1, 2))
        joined: torch.Tensor = self.leave(torch.cat(parts, 1))
        return joined


class _Head(nn.Module):
    """Boxes and classes of the pixels of a scale."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.boxes = nn.Sequential(
            _Convolution(channels, 64, 3), _Convolution(64, 64, 3), nn.Conv2d(64, 4 * _DISTANCES, 1)
        )
        self.classes = nn.Sequential(
            _Convolution(channels, 80, 3), _Convolution(80, 80, 3), nn.Conv2d(80, _CLASSES, 1)
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.boxes(images), self.classes(images)], 1).flatten(2)


class Yolo(nn.Module):
    """From images N x 3 x H x W, of multiples of 32, to boxes and scores of the pixels of three scales.

    These are N x 84 x P, where P is H W (1/64 + 1/256 + 1/1024).
    """

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            _Convolution(3, 16, 3, 2), _Convolution(16, 32, 3, 2), _SplitBottlenecks(32, 32, 1, adds=True)
        )
        self.eighth = nn.Sequential(_Convolution(32, 64, 3, 2), _SplitBottlenecks(64, 64, 2, adds=True))
        self.sixteenth = nn.Sequential(_Convolution(64, 128, 3, 2), _SplitBottlenecks(128, 128, 2, adds=True))
        self.last = nn.Sequential(
            _Convolution(128, 256, 3, 2), _SplitBottlenecks(256, 256, 1, adds=True), _PyramidPooling(256)
        )
        self.up_sixteenth = _SplitBottlenecks(384, 128, 1, adds=False)
        self.up_eighth = _SplitBottlenecks(192, 64, 1, adds=False)
        self.down_sixteenth = _Convolution(64, 64, 3, 2)
        self.of_sixteenth = _SplitBottlenecks(192, 128, 1, adds=False)
        self.down_last = _Convolution(128, 128, 3, 2)
        self.of_last = _SplitBottlenecks(384, 256, 1, adds=False)
        self.heads = nn.ModuleList(map(_Head, (64, 128, 256)))
        self.register_buffer("distances", torch.arange(_DISTANCES, dtype=torch.float32), persistent=False)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        eighth = self.eighth(self.stem(images))
        sixteenth = self.sixteenth(eighth)
        last = self.last(sixteenth)
        sixteenth = self.up_sixteenth(torch.cat([_doubled(last), sixteenth], 1))
        eighth = self.up_eighth(torch.cat([_doubled(sixteenth), eighth], 1))
        sixteenth = self.of_sixteenth(torch.cat([self.down_sixteenth(eighth), sixteenth], 1))
        last = self.of_last(torch.cat([self.down_last(sixteenth), last], 1))
        scales = (eighth, sixteenth, last)
        found = torch.cat([head(scale) for head, scale in zip(self.heads, scales, strict=True)], 2)
        sides, classes = found.split([4 * _DISTANCES, _CLASSES], 1)
        likely = sides.unflatten(1, (4, _DISTANCES)).softmax(2)
        boxes = torch.einsum("nsdp,d->nsp", likely, self.distances)
        return torch.cat([boxes, classes.sigmoid()], 1)


def _doubled(images: torch.Tensor) -> torch.Tensor:
    return functional.interpolate(images, scale_factor=2.0, mode="nearest")
