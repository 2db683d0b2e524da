"""Group and instance normalization as a scale and a shift of each channel."""

from __future__ import annotations

from math import prod
from typing import Any

import torch


def group_norm(
    image: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    batch: int,
    channels: int,
    pixels: int,
    groups: int,
    epsilon: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """`aten.native_group_norm` as torch writes it for CPUs: image * scale + shift, the vectors small.

    On other devices, and without a weight, torch's own normalizes a view of the image by groups. No layout
    but channels first has that view, so each normalization between convolutions would be between two
    transpositions. Images of half precision are computed in f32; means and deviations are those of groups.
    """
    numbers = image.float() if image.dtype in (torch.float16, torch.bfloat16) else image
    if groups == channels and not isinstance(pixels, int):
        # torch-mlir takes a view of one channel for each group for one of an image of a single row.
        pixel_dims = tuple(range(2, numbers.dim()))
        moments = torch.var_mean(numbers, dim=pixel_dims, unbiased=False, keepdim=True)
        variance, mean = (each.reshape(batch, groups, 1, 1) for each in moments)
    else:
        by_groups = numbers.reshape(batch, groups, channels // groups, pixels)
        variance, mean = torch.var_mean(by_groups, dim=(2, 3), unbiased=False, keepdim=True)
    deviation = torch.rsqrt(variance + epsilon)
    one = numbers.new_ones(1, groups, channels // groups, 1) if weight is None else weight
    scale = deviation * one.reshape(1, groups, channels // groups, 1)
    shift = -mean * scale
    if bias is not None:
        shift = shift + bias.reshape(1, groups, channels // groups, 1)
    vectors = (batch, channels, *(1 for _ in image.shape[2:]))
    result = (numbers * scale.reshape(vectors) + shift.reshape(vectors)).to(image.dtype)
    return (
        result,
        mean.reshape(batch, groups).to(image.dtype),
        deviation.reshape(batch, groups).to(image.dtype),
    )


def instance_norm(
    image: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None,
    use_input_stats: bool,
    momentum: float,
    epsilon: float,
    cudnn_enabled: bool,
) -> Any:
    """`aten.instance_norm` as group normalization, of groups of one channel.

    Torch's own is batch normalization of a view that has the channels of all images for channels, which no
    layout has but channels first. NotImplemented with running statistics, which that takes and updates.
    """
    if not use_input_stats or running_mean is not None or running_var is not None:
        return NotImplemented
    batch, channels, *size = image.shape
    return group_norm(image, weight, bias, batch, channels, prod(size), channels, epsilon)[0]
