"""Orders in which networks have the pixels of images N x H x W x C."""

from __future__ import annotations

import torch

_WINDOW = 4


def rotated(image: torch.Tensor, distance: int) -> torch.Tensor:
    """Along height and width."""
    return torch.roll(image, (distance, distance), (1, 2))


def windows(image: torch.Tensor) -> torch.Tensor:
    """Windows of 4 x 4 pixels, their pixels in a row (Liu et al. 2021)."""
    batch, height, width, channels = image.shape
    divided = image.reshape(batch, height // _WINDOW, _WINDOW, width // _WINDOW, _WINDOW, channels)
    return divided.transpose(2, 3).reshape(-1, _WINDOW * _WINDOW, channels)


def whole(parts: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """The images that `windows` were of."""
    divided = parts.reshape(-1, height // _WINDOW, width // _WINDOW, _WINDOW, _WINDOW, parts.shape[-1])
    return divided.transpose(2, 3).reshape(-1, height, width, parts.shape[-1])


def merged(image: torch.Tensor) -> torch.Tensor:
    """The channels of 2 x 2 pixels as those of one, as between the stages of such a network."""
    batch, height, width, channels = image.shape
    divided = image.reshape(batch, height // 2, 2, width // 2, 2, channels)
    return divided.permute(0, 1, 3, 4, 2, 5).flatten(3)


def patches(image: torch.Tensor) -> torch.Tensor:
    """The pixels at one place of each patch of 2 x 2 in a row (Mehta and Rastegari 2022)."""
    batch, _, width, channels = image.shape
    rows = image.permute(0, 3, 1, 2).reshape(-1, 2, width // 2, 2).transpose(1, 2)
    return rows.reshape(batch, channels, -1, 4).transpose(1, 3)
