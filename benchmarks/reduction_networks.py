"""Small networks whose reductions IREE compiles, between convolutions that we compile.

The shapes are those of large ones: pixels, and channels of a group, that IREE distributes over threads.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from iree.winograd.dialect.algebra.ceil_div import ceil_div
from torch import nn
from torch.nn import functional

IMAGE_CHANNELS = 8
IMAGE = (2, IMAGE_CHANNELS, 8, 8)


class Repeated(nn.Module):
    """The channels of an image again and again, until there are so many."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        copies = ceil_div(self.channels, image.shape[1])
        return image.repeat(1, copies, 1, 1)[:, : self.channels]


class Between(nn.Module):
    """Layers between two pointwise convolutions, on each of several images of the first's channels.

    There are as many results as layers. Without `before` or `after` that convolution is left out: images are
    channels first there.
    """

    def __init__(
        self, layers: list[tuple[int, nn.Module]], *, before: bool = True, after: bool = True
    ) -> None:
        super().__init__()
        self.channels = [channels for channels, _ in layers]
        self.before = nn.ModuleList(
            nn.Conv2d(IMAGE_CHANNELS, channels, 1) if before else Repeated(channels) for channels, _ in layers
        )
        self.layers = nn.ModuleList(layer for _, layer in layers)
        self.after = nn.ModuleList(
            nn.Conv2d(channels, 8, 1) if after else nn.Identity() for channels, _ in layers
        )

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        branches = zip(self.before, self.layers, self.after, strict=True)
        return tuple(after(layer(before(image))) for before, layer, after in branches)

    def placed(self, *, before: bool, after: bool) -> Between:
        """The same layers with other convolutions."""
        layers = zip(self.channels, self.layers, strict=True)
        return Between(list(layers), before=before, after=after)


class Applied(nn.Module):
    """A function as a layer."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.function(image)


class SqueezeAndExcitation(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.squeeze, self.excite = nn.Linear(channels, 16), nn.Linear(16, channels)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        scales = torch.sigmoid(self.excite(torch.relu(self.squeeze(image.mean((2, 3))))))
        return image * scales[:, :, None, None]


class ChannelNorm(nn.Module):
    """Layer normalization of the channels of each pixel, as ConvNeXt's."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(channels)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.norm(image.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Attention(nn.Module):
    """Of an image's pixels, behind group normalization, as Stable Diffusion's decoder has it."""

    def __init__(self, channels: int, groups: int, heads: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)
        self.attention = nn.MultiheadAttention(channels, heads, batch_first=True)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        tokens = self.norm(image).flatten(2).transpose(1, 2)
        attended, _ = self.attention(tokens, tokens, tokens, need_weights=False)
        return image + attended.transpose(1, 2).reshape(image.shape)


class DiffusionBlock(nn.Module):
    """A residual block of Stable Diffusion's U-Net, with few channels for the many of its convolutions."""

    def __init__(self, channels: int, groups: int) -> None:
        super().__init__()
        self.first, self.second = nn.GroupNorm(groups, channels), nn.GroupNorm(groups, channels)
        self.narrow, self.widen = nn.Conv2d(channels, 8, 3, padding=1), nn.Conv2d(8, channels, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        hidden = self.widen(self.narrow(functional.silu(self.first(image))))
        return image + self.widen(self.narrow(functional.silu(self.second(hidden))))


def group_norms(widths: tuple[int, ...]) -> Between:
    """Groups of so many channels each."""
    return Between([(4 * width, nn.GroupNorm(4, 4 * width)) for width in widths])


def group_reductions(reduce: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[], Between]:
    """Scales of groups of 40 and of 24 channels."""

    def scaled(image: torch.Tensor) -> torch.Tensor:
        return (image.unflatten(1, (2, -1)) * reduce(image.unflatten(1, (2, -1)))).flatten(1, 2)

    return lambda: Between([(80, Applied(scaled)), (48, Applied(scaled))])


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "group norm": lambda: group_norms((40, 10, 20, 24, 30, 60)),
    "group norm, other widths": lambda: group_norms((1, 2, 3, 4, 6, 8, 12, 16, 32, 48, 80, 96)),
    "group norm of one group": lambda: Between([(width, nn.GroupNorm(1, width)) for width in (40, 60, 96)]),
    "group norm, one channel a group": lambda: Between([(40, nn.GroupNorm(40, 40))]),
    "instance norm": lambda: Between([(c, nn.InstanceNorm2d(c, affine=True)) for c in (20, 40, 64)]),
    "layer norm of images": lambda: Between([(c, nn.LayerNorm((c, 8, 8))) for c in (10, 24, 40)]),
    "layer norm of channels": lambda: Between([(c, ChannelNorm(c)) for c in (40, 96, 160)]),
    "squeeze and excitation": lambda: Between([(c, SqueezeAndExcitation(c)) for c in (40, 64, 120)]),
    "diffusion": lambda: Between([(320, DiffusionBlock(320, 32)), (80, DiffusionBlock(80, 2))]),
    "attention": lambda: Between([(80, Attention(80, 2, 2)), (64, Attention(64, 32, 1))]),
    "softmax of channels": lambda: Between([(40, Applied(lambda x: torch.softmax(x, 1)))]),
    "softmax of rows": lambda: Between([(40, Applied(lambda x: torch.softmax(x, 3)))]),
    "softmax of groups": lambda: Between(
        [(80, Applied(lambda x: torch.softmax(x.reshape(2, 2, -1), 2).reshape(x.shape)))]
    ),
    "maxima of groups": group_reductions(lambda x: x.amax((2, 3, 4), keepdim=True)),
    "means of groups": group_reductions(lambda x: x.mean((2, 3, 4), keepdim=True)),
    "deviations of groups": group_reductions(lambda x: x.std((2, 3, 4), keepdim=True)),
    "norms of groups": group_reductions(lambda x: (x * x).sum((2, 3, 4), keepdim=True).sqrt()),
    # Near one: the products of hundreds of other numbers are none of f32.
    "products of groups": group_reductions(
        lambda x: (1 + x / 64).prod(4, keepdim=True).prod(2, keepdim=True)
    ),
    "global response norm": lambda: Between(
        [
            (
                40,
                Applied(
                    lambda x: x * (lambda n: n / n.mean(1, keepdim=True))(x.norm(dim=(2, 3), keepdim=True))
                ),
            )
        ]
    ),
    "pooling": lambda: Between([(40, nn.AdaptiveAvgPool2d(1)), (40, nn.AdaptiveAvgPool2d(1))]),
}
