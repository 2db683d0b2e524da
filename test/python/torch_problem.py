"""Convolutions as torch's operators define them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Problem:
    """A convolution of N x C x size..., transposed or not, with padding on both sides."""

    size: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    padding: tuple[int, ...]
    dilations: tuple[int, ...]
    channels: int = 4
    outputs: int = 6
    groups: int = 1
    batch: int = 2
    transposed: bool = False
    output_padding: tuple[int, ...] = ()

    def __str__(self) -> str:
        parts = [
            "x".join(map(str, each))
            for each in (self.size, self.kernel, self.strides, self.padding, self.dilations)
        ]
        kind = "x".join(("transposed", *map(str, self.output_padding))) + "-" if self.transposed else ""
        return f"{kind}{self.batch}x{self.channels}x{'-'.join(parts)}-{self.outputs}-groups-{self.groups}"

    @property
    def output_size(self) -> Sequence[int]:
        """Not positive where there are no outputs."""
        windows = zip(self.size, self.kernel, self.strides, self.padding, self.dilations, strict=True)
        if self.transposed:
            more = self.output_padding or (0,) * len(self.size)
            least = [(size - 1) * s - 2 * p + d * (taps - 1) + 1 for size, taps, s, p, d in windows]
            return [size + each for size, each in zip(least, more, strict=True)]
        return [(size + 2 * p - d * (taps - 1) - 1) // s + 1 for size, taps, s, p, d in windows]

    @property
    def window(self) -> tuple[Any, ...]:
        """What torch's operators take after the operands."""
        sizes = (list(self.strides), list(self.padding), list(self.dilations))
        more = list(self.output_padding) or [0] * len(self.size)
        return (*sizes, self.transposed, more, self.groups)

    def operands(self) -> tuple[torch.Tensor, torch.Tensor]:
        """An image and a filter, the same each time."""
        torch.manual_seed(0)
        first, second = self.outputs, self.channels
        if self.transposed:
            first, second = second, first
        image = torch.randn(self.batch, self.channels, *self.size)
        return image, torch.randn(first, second // self.groups, *self.kernel)

    def convolve(self, image: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """The convolution of an image by a filter, in their type."""
        return torch.ops.aten.convolution(image, weight, None, *self.window)
