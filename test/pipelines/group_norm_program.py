"""Group normalization and SiLU between convolutions, and what they are in float64."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

UNIT_ROUNDOFF = 2.0**-24
ROUNDINGS = 2.0**10
"""More than an element of a test goes through: those of a thread's sum, of threads, and of workgroups."""

Exact = npt.NDArray[np.float64]


class Normalized(nn.Module):
    """Group normalization and SiLU of an image between filters that read no channel but one."""

    def __init__(self, channels: int, groups: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)
        for each in self.norm.parameters():
            nn.init.normal_(each)
        self.convolutions = nn.ModuleList(nn.Conv2d(channels, channels, 1, bias=False) for _ in range(2))
        for convolution in self.convolutions:
            nn.init.dirac_(convolution.weight)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        first, last = self.convolutions
        result: torch.Tensor = last(nn.functional.silu(self.norm(first(image))))
        return result


class NormalizedByArguments(nn.Module):
    """The same by a weight and a bias that are arguments, between few channels and few."""

    def __init__(self, channels: int, groups: int) -> None:
        super().__init__()
        self.groups = groups
        self.before, self.after = nn.Conv2d(8, channels, 1), nn.Conv2d(channels, 8, 1)

    def forward(self, image: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        normalized = nn.functional.group_norm(self.before(image), self.groups, weight, bias)
        result: torch.Tensor = self.after(nn.functional.silu(normalized))
        return result


def normalized(
    image: Exact, groups: int, weight: Exact, bias: Exact, epsilon: float = 1e-5
) -> tuple[Exact, Exact]:
    """Group normalization of N x C x ..., and a bound of the error of one in float32."""
    batch, channels, *size = image.shape
    of_group = image.reshape(batch, groups, -1)
    vector = (batch, channels, *(1 for _ in size))
    mean, variance = (
        np.repeat(each, channels // groups, 1).reshape(vector)
        for each in (of_group.mean(-1), of_group.var(-1))
    )
    weight, bias = (each.reshape(1, *vector[1:]) for each in (weight, bias))
    factor = np.abs(weight) / np.sqrt(variance + epsilon)
    # Every rounding of a mean is of a number below the largest. The variance's own error is halved by the
    # root.
    of_mean = ROUNDINGS * UNIT_ROUNDOFF * np.abs(image).max()
    spread = np.abs(image - mean).max() ** 2 / variance
    of_factor = factor * (ROUNDINGS * UNIT_ROUNDOFF * spread / 2 + 8 * UNIT_ROUNDOFF)
    terms = factor * (np.abs(image) + np.abs(mean)) + np.abs(bias)
    bound = of_factor * (np.abs(image) + np.abs(mean)) + factor * of_mean + 4 * UNIT_ROUNDOFF * terms
    return weight / np.sqrt(variance + epsilon) * (image - mean) + bias, bound


def activated(exact: Exact, bound: Exact) -> tuple[Exact, Exact]:
    """SiLU of a number with such an error, and the bound of the result's."""
    expected = exact / (1 + np.exp(-exact))
    # SiLU's slope is at most 1.1, and its own roundings as in test_elementwise.py.
    return expected, 1.1 * bound + UNIT_ROUNDOFF * (20 + 4 * (np.abs(exact) + bound)) * np.abs(expected)
