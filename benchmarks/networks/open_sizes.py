"""Small networks of the kinds that are run on images of any size: decoders, detectors, films, sound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from benchmarks.networks.network import Network


def _convolution(
    channels: int, filters: int, kernel: int = 3, stride: int = 1, dilation: int = 1, groups: int = 1
) -> nn.Conv2d:
    padding = dilation * (kernel // 2)
    return nn.Conv2d(channels, filters, kernel, stride, padding, dilation, groups, bias=False)


def _layer(
    channels: int,
    filters: int,
    *sizes: int,
    activation: type[nn.Module] = nn.ReLU,
    groups: int = 1,
    dilation: int = 1,
) -> nn.Sequential:
    """Convolution, normalization and activation; `sizes` are the kernel's and the stride."""
    convolution = _convolution(channels, filters, *sizes, groups=groups, dilation=dilation)
    return nn.Sequential(convolution, nn.BatchNorm2d(filters), activation())


class Denoiser(nn.Module):
    """DnCNN: what is subtracted from an image is its noise, which layers of the same size compute."""

    def __init__(self) -> None:
        super().__init__()
        layers = (_layer(64, 64) for _ in range(4))
        self.noise = nn.Sequential(_convolution(3, 64), nn.ReLU(), *layers, _convolution(64, 3))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        noise: torch.Tensor = self.noise(image)
        return image - noise


class Decoder(nn.Module):
    """U-Net of two levels, whose images are enlarged by transposed convolutions or in a mode of torch's."""

    def __init__(self, mode: str | None) -> None:
        super().__init__()
        self.mode = mode
        self.outer, self.middle, self.inner = _layer(3, 16), _layer(16, 32), _layer(32, 64)
        self.enlarge = nn.ModuleList(self._enlarging(channels) for channels in (64, 32))
        self.merge = nn.ModuleList((_layer(64, 32), _layer(32, 16)))
        self.classifier = nn.Conv2d(16, 2, 1)

    def _enlarging(self, channels: int) -> nn.Module:
        if self.mode is None:
            return nn.ConvTranspose2d(channels, channels // 2, 2, 2)
        return nn.Sequential(
            nn.Upsample(scale_factor=2.0, mode=self.mode), nn.Conv2d(channels, channels // 2, 1)
        )

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        outer = self.outer(image)
        middle = self.middle(functional.max_pool2d(outer, 2))
        decoded = self.inner(functional.max_pool2d(middle, 2))
        for enlarge, merge, skip in zip(self.enlarge, self.merge, (middle, outer), strict=True):
            decoded = merge(torch.cat([enlarge(decoded), skip], 1))
        result: torch.Tensor = self.classifier(decoded)
        return result


class _Residual(nn.Module):
    """The basic block of ResNet."""

    def __init__(self, channels: int, filters: int, stride: int) -> None:
        super().__init__()
        self.first = _layer(channels, filters, 3, stride)
        self.second = nn.Sequential(_convolution(filters, filters), nn.BatchNorm2d(filters))
        self.shortcut = nn.Conv2d(channels, filters, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.second(self.first(image)) + self.shortcut(image))


class Pyramid(nn.Module):
    """A residual network with a feature pyramid: levels are enlarged to the next one's size and added."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(_layer(3, 16, 7, 2), nn.MaxPool2d(3, 2, 1))
        self.levels = nn.ModuleList((_Residual(16, 16, 1), _Residual(16, 32, 2), _Residual(32, 64, 2)))
        self.lateral = nn.ModuleList(nn.Conv2d(channels, 16, 1) for channels in (16, 32, 64))
        self.output = nn.ModuleList(nn.Conv2d(16, 16, 3, padding=1) for _ in range(3))

    def forward(self, image: torch.Tensor) -> list[torch.Tensor]:
        features, maps = self.stem(image), []
        for level, lateral in zip(self.levels, self.lateral, strict=True):
            features = level(features)
            maps.append(lateral(features))
        for larger, smaller in ((1, 2), (0, 1)):
            size = maps[larger].shape[-2:]
            maps[larger] = maps[larger] + functional.interpolate(maps[smaller], size=size)
        return [output(each) for output, each in zip(self.output, maps, strict=True)]


class DenseEnlarging(nn.Module):
    """A dense residual block of ESRGAN, and the nearest resizing behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 32, 3, padding=1)
        filters = (16, 16, 16, 16, 32)
        self.dense = nn.ModuleList(
            nn.Conv2d(32 + 16 * number, each, 3, padding=1) for number, each in enumerate(filters)
        )
        self.enlarged = nn.Conv2d(32, 32, 3, padding=1)
        self.last = nn.Conv2d(32, 3, 3, padding=1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        features = self.first(image)
        parts = [features]
        for convolution in self.dense:
            parts.append(functional.leaky_relu(convolution(torch.cat(parts, 1)), 0.2))
        enlarged = functional.interpolate(features + 0.2 * parts[-1], scale_factor=2.0)
        result: torch.Tensor = self.last(functional.leaky_relu(self.enlarged(enlarged), 0.2))
        return result


class Detector(nn.Module):
    """A YOLO-like one: spatial pyramid pooling, a neck up and down again, boxes of two levels as rows."""

    def __init__(self) -> None:
        super().__init__()
        self.outer = nn.Sequential(
            self._layer(3, 16, 3, 2), self._layer(16, 32, 3, 2), self._layer(32, 32, 3, 2)
        )
        self.inner = nn.Sequential(self._layer(32, 64, 3, 2), self._layer(64, 32, 1))
        self.pooled, self.reduced = self._layer(128, 64, 1), self._layer(64, 32, 1)
        self.up, self.down, self.merged = (
            self._layer(64, 32, 3),
            self._layer(32, 32, 3, 2),
            self._layer(64, 64, 3),
        )
        self.heads = nn.ModuleList(nn.Conv2d(channels, 9, 1) for channels in (32, 64))

    @staticmethod
    def _layer(channels: int, filters: int, *sizes: int) -> nn.Sequential:
        return _layer(channels, filters, *sizes, activation=nn.SiLU)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        outer = self.outer(image)
        pools = [self.inner(outer)]
        for _ in range(3):
            pools.append(functional.max_pool2d(pools[-1], 5, 1, 2))
        reduced = self.reduced(self.pooled(torch.cat(pools, 1)))
        up = self.up(torch.cat([functional.interpolate(reduced, scale_factor=2.0), outer], 1))
        merged = self.merged(torch.cat([self.down(up), reduced], 1))
        boxes = [head(each).flatten(2) for head, each in zip(self.heads, (up, merged), strict=True)]
        return torch.cat(boxes, 2).transpose(1, 2)


class Segmenter(nn.Module):
    """DeepLab: dilated convolutions and a global mean side by side, resized to the image's size."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(_layer(3, 16, 3, 2), _layer(16, 32, 3, 2), _layer(32, 32, 3, 2))
        dilated = (_layer(32, 16, 3, dilation=dilation) for dilation in (2, 4, 6))
        self.branches = nn.ModuleList((_layer(32, 16, 1), *dilated))
        self.mean = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(32, 16, 1), nn.ReLU())
        self.classifier = nn.Sequential(_layer(80, 32, 1), nn.Conv2d(32, 4, 1))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        features = self.features(image)
        branches = [branch(features) for branch in self.branches]
        branches.append(self.mean(features).expand(-1, -1, *features.shape[-2:]))
        classes = self.classifier(torch.cat(branches, 1))
        return functional.interpolate(classes, size=image.shape[-2:], mode="bilinear", align_corners=False)


class _Inverted(nn.Module):
    """The block of MobileNetV2, and of EfficientNet where channels are gated."""

    def __init__(self, channels: int, filters: int, kernel: int, stride: int, gated: bool) -> None:
        super().__init__()
        width, activation = 4 * channels, nn.SiLU if gated else nn.ReLU6
        self.expand = _layer(channels, width, 1, activation=activation)
        self.depthwise = _layer(width, width, kernel, stride, activation=activation, groups=width)
        self.gate = nn.Identity()
        if gated:
            squeezed = (nn.AdaptiveAvgPool2d(1), nn.Conv2d(width, 8, 1), nn.SiLU())
            self.gate = nn.Sequential(*squeezed, nn.Conv2d(8, width, 1), nn.Sigmoid())
        self.project = nn.Sequential(_convolution(width, filters, 1), nn.BatchNorm2d(filters))
        self.gated, self.residual = gated, stride == 1 and channels == filters

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        features = self.depthwise(self.expand(image))
        if self.gated:
            features = features * self.gate(features)
        result: torch.Tensor = self.project(features)
        return image + result if self.residual else result


def _classifier(gated: bool) -> nn.Module:
    kernel = 5 if gated else 3
    return nn.Sequential(
        _layer(3, 16, 3, 2),
        _Inverted(16, 16, 3, 1, gated),
        _Inverted(16, 24, kernel, 2, gated),
        _Inverted(24, 24, kernel, 1, gated),
        nn.Conv2d(24, 64, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    )


class Separator(nn.Module):
    """Wave-U-Net: a signal is halved by leaving out elements, and doubled by linear resizing."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList(
            nn.Conv1d(channels, filters, 15, padding=7) for channels, filters in ((1, 16), (16, 32), (32, 32))
        )
        self.up = nn.ModuleList((nn.Conv1d(64, 32, 5, padding=2), nn.Conv1d(48, 16, 5, padding=2)))
        self.last = nn.Conv1d(16, 1, 1)

    def forward(self, sound: torch.Tensor) -> torch.Tensor:
        outer = functional.leaky_relu(self.down[0](sound))
        middle = functional.leaky_relu(self.down[1](outer[:, :, ::2]))
        decoded = functional.leaky_relu(self.down[2](middle[:, :, ::2]))
        for up, skip in zip(self.up, (middle, outer), strict=True):
            enlarged = functional.interpolate(decoded, scale_factor=2.0, mode="linear", align_corners=False)
            decoded = functional.leaky_relu(up(torch.cat([enlarged, skip], 1)))
        return torch.tanh(self.last(decoded))


def _film() -> nn.Module:
    return nn.Sequential(
        nn.Conv3d(3, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool3d((1, 2, 2)),
        nn.Conv3d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv3d(32, 16, 3, (1, 2, 2), 1),
    )


@dataclass(frozen=True)
class OpenNetwork:
    """A network for images of all sizes that are multiples of `multiple`, from `least` times that on."""

    network: Network
    multiple: tuple[int, ...]
    least: tuple[int, ...]

    @property
    def channels(self) -> int:
        return self.network.input_shape[0]

    @property
    def dimensions(self) -> dict[int, Any]:
        """The open dimensions of its input, as `torch.export` takes them."""
        return {
            number + 2: _dimension(f"size_{number}", multiple, least)
            for number, (multiple, least) in enumerate(zip(self.multiple, self.least, strict=True))
        }

    def size(self, times: Sequence[float]) -> tuple[int, ...]:
        """So many times the least size in each dimension, in order and again from the first."""
        return tuple(
            multiple * int(least * factor)
            for multiple, least, factor in zip(self.multiple, self.least, cycle(times), strict=False)
        )

    def usual(self, times: float) -> tuple[int, ...]:
        """About so many times the size that its images mostly have, in each dimension."""
        _, *sizes = self.network.input_shape
        return tuple(
            multiple * max(least, round(times * size / multiple))
            for multiple, least, size in zip(self.multiple, self.least, sizes, strict=True)
        )


def _dimension(name: str, multiple: int, least: int) -> Any:
    dimension = torch.export.Dim(name, min=least)
    return dimension if multiple == 1 else multiple * dimension


def _of_images(build: Callable[[], nn.Module], multiple: int, least: int) -> OpenNetwork:
    return OpenNetwork(Network(build, (3, 192, 160)), (multiple, multiple), (least, least))


OPEN_NETWORKS = {
    "dncnn": _of_images(Denoiser, 1, 2),
    "unet, transposed": _of_images(lambda: Decoder(None), 4, 2),
    "unet, nearest": _of_images(lambda: Decoder("nearest"), 4, 2),
    "unet, bilinear": _of_images(lambda: Decoder("bilinear"), 4, 2),
    "resnet with fpn": _of_images(Pyramid, 1, 17),
    "esrgan block": _of_images(DenseEnlarging, 1, 2),
    "detector with neck": _of_images(Detector, 16, 2),
    "deeplab": _of_images(Segmenter, 1, 9),
    "mobilenetv2": _of_images(lambda: _classifier(False), 1, 5),
    "efficientnet": _of_images(lambda: _classifier(True), 1, 5),
    "wave-u-net": OpenNetwork(Network(Separator, (1, 16384)), (4,), (4,)),
    "film": OpenNetwork(Network(_film, (3, 8, 64, 48)), (1, 2, 2), (2, 2, 2)),
}
