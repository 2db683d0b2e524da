"""Small networks of the kinds that torch exports as ONNX files: attention, images made larger, speech."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

TOKENS, IMAGE, SOUND = (2, 9, 32), (2, 3, 16, 16), (2, 16, 40)


@dataclass(frozen=True)
class Export:
    """A network with random weights, the shape of its input, and whether it is exported for any batch."""

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    any_batch: bool = True


class SelfAttention(nn.Module):
    """`nn.MultiheadAttention` of tokens with themselves."""

    def __init__(self, need_weights: bool = False) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)
        self.need_weights = need_weights

    def forward(self, x: Tensor) -> Tensor:
        y, weights = self.attention(x, x, x, need_weights=self.need_weights)
        return y if weights is None else y.mean(-1, keepdim=True) + weights


class Decoder(nn.Module):
    """Attention of tokens to others."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerDecoderLayer(32, 4, 64, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x, x[:, :5])


class VisionTransformer(nn.Module):
    """Patches of an image and a class token."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 32, 4, 4)
        layer = nn.TransformerEncoderLayer(32, 4, 64, activation="gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.token, self.position = nn.Parameter(torch.randn(1, 1, 32)), nn.Parameter(torch.randn(1, 17, 32))

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.position
        return self.encoder(x)[:, 0]


class Windows(nn.Module):
    """Windows of an image, as in Swin, by sizes that the model asks for."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 16, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.convolution(x)
        b, c, h, w = x.shape
        x = x.view(b, c, h // 4, 4, w // 4, 4).permute(0, 2, 4, 3, 5, 1).reshape(-1, 16, c).softmax(1)
        x = x.view(b, h // 4, w // 4, 4, 4, c).permute(0, 5, 1, 3, 2, 4).reshape(b, c, h, w)
        return torch.roll(x, (1, 2), (2, 3))


class ShuffledChannels(nn.Module):
    """Channels in another order, and an image of twice the size that it asks for."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 16, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.convolution(x)
        b, c, h, w = x.shape
        x = x.view(b, 2, c // 2, h, w).transpose(1, 2).reshape(b, c, h, w)
        return functional.interpolate(x, size=(h * 2, w * 2), mode="bilinear")


class Causal(nn.Module):
    """Tokens that attend to those before them."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        mask = torch.triu(torch.full((x.shape[1], x.shape[1]), float("-inf")), 1)
        return self.layer(x, src_mask=mask)


class SpatialAttention(nn.Module):
    """Scaled dot products of the places of an image."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Conv2d(3, 48, 1)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).flatten(2).unflatten(1, (3, 2, 8)).transpose(-1, -2).unbind(1)
        y = functional.scaled_dot_product_attention(q, k, v)
        return y.transpose(-1, -2).reshape(x.shape[0], 16, *x.shape[2:])


class Resized(nn.Module):
    """An image that is resized between convolutions."""

    def __init__(self, **options: object) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 4, 3, padding=1)
        self.options = options

    def forward(self, x: Tensor) -> Tensor:
        return self.last(functional.interpolate(self.first(x), **self.options))  # type: ignore[arg-type]


class Detector(nn.Module):
    """Spatial pyramid pooling, two scales joined, and flat predictions."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.down = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 16, 3, 2, 1)
        self.pyramid, self.lateral = nn.Conv2d(48, 16, 1), nn.Conv2d(24, 10, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        a = functional.silu(self.stem(x))
        b = functional.silu(self.down(a))
        pooled = functional.max_pool2d(b, 5, 1, 2)
        b = self.pyramid(torch.cat([b, pooled, functional.max_pool2d(pooled, 5, 1, 2)], 1))
        y = self.lateral(torch.cat([functional.interpolate(b, scale_factor=2.0), a], 1))
        return y.flatten(2).transpose(1, 2).sigmoid()


class Segmenter(nn.Module):
    """Dilated convolutions beside a mean of the image, resized to the input."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 2, 1)
        self.rates = nn.ModuleList(nn.Conv2d(8, 4, 3, padding=d, dilation=d) for d in (1, 2, 4))
        self.mean, self.head = nn.Conv2d(8, 4, 1), nn.Conv2d(16, 5, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.stem(x))
        mean = functional.interpolate(
            self.mean(y.mean((2, 3), keepdim=True)), size=y.shape[2:], mode="bilinear"
        )
        y = self.head(torch.cat([*(each(y) for each in self.rates), mean], 1))
        return functional.interpolate(y, size=x.shape[2:], mode="bilinear", align_corners=False)


class Warped(nn.Module):
    """An image that is sampled where a convolution says, as flow is in RAFT."""

    def __init__(self, **options: object) -> None:
        super().__init__()
        self.flow = nn.Conv2d(3, 2, 3, padding=1)
        self.options = options

    def forward(self, x: Tensor) -> Tensor:
        grid = 1.5 * torch.tanh(self.flow(x)).permute(0, 2, 3, 1)
        return functional.grid_sample(x, grid, **self.options)  # type: ignore[arg-type]


class Recurrent(nn.Module):
    """Convolutions of a sound, then recurrent layers in both directions."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(16, 24, 5, stride=2, padding=2)
        self.layers = nn.LSTM(24, 12, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(torch.relu(self.convolution(x)).transpose(1, 2))[0]


class Speech(nn.Module):
    """Gated causal convolutions of a sound."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv1d(16, 32, 3, dilation=d) for d in (1, 2, 4))
        self.head = nn.ConvTranspose1d(16, 1, 8, 4, 2)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + functional.glu(layer(functional.pad(x, (2 * layer.dilation[0], 0))), 1)
        return self.head(x)


def super_resolution(upscale: int) -> nn.Module:
    """ESPCN: an image `upscale` times as large, made of channels."""
    convolutions = nn.Conv2d(3, 16, 5, padding=2), nn.Tanh(), nn.Conv2d(16, 3 * upscale**2, 3, padding=1)
    return nn.Sequential(*convolutions, nn.PixelShuffle(upscale))


EXPORTS = {
    "self-attention": Export(SelfAttention, TOKENS),
    "decoder layer": Export(Decoder, TOKENS),
    "causal": Export(Causal, TOKENS),
    "vision transformer": Export(VisionTransformer, IMAGE),
    "windows": Export(Windows, IMAGE),
    "shuffled channels": Export(ShuffledChannels, IMAGE),
    "spatial attention": Export(SpatialAttention, IMAGE),
    "super-resolution by 2": Export(lambda: super_resolution(2), IMAGE),
    "bicubic": Export(lambda: Resized(scale_factor=2.0, mode="bicubic"), IMAGE),
    "bilinear, corners": Export(lambda: Resized(size=(24, 11), mode="bilinear", align_corners=True), IMAGE),
    "detector": Export(Detector, IMAGE),
    "segmenter": Export(Segmenter, IMAGE),
    # IREE can't compile gathering rows of any number of images once their layout is changed.
    "warped": Export(lambda: Warped(padding_mode="border", align_corners=False), IMAGE, any_batch=False),
    "LSTM": Export(Recurrent, SOUND),
    "speech": Export(Speech, SOUND),
}
