"""Models of half precision, their results, and what these may differ by from float64."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import iree.winograd
import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn import functional

Exact = npt.NDArray[np.float64]

TYPES = [torch.float16, torch.bfloat16]
ROUNDOFF = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
STORED_ROUNDOFF: Mapping[torch.dtype, float] = {torch.float32: 0.0, **ROUNDOFF}
"""Of what is stored, where that isn't f32."""
SMALLEST = {torch.float16: 2.0**-24, torch.bfloat16: 2.0**-133}
"""The distance of the smallest numbers of a type."""
SUM_ERRORS = {"cpu": 1e-5, "gpu": 1e-4}
"""The most that a convolution in f32 may be off, of its largest output: what algorithms are chosen by."""

Layer = tuple[Callable[[], nn.Module], tuple[int, ...]]


def convolution(*sizes: int, **options: Any) -> Callable[[], nn.Module]:
    """What makes one in two dimensions."""
    return partial(nn.Conv2d, *sizes, **options)


def linear(*sizes: int) -> Callable[[], nn.Module]:
    """Without a bias."""
    return partial(nn.Linear, *sizes, bias=False)


LAYERS: dict[str, Layer] = {
    "3x3": (convolution(16, 24, 3, padding=1), (2, 16, 14, 15)),
    "strided": (convolution(8, 16, 5, stride=2, padding=2), (1, 8, 21, 21)),
    "pointwise": (convolution(48, 32, 1), (1, 48, 9, 9)),
    "depthwise": (convolution(32, 32, 3, padding=1, groups=32), (1, 32, 12, 12)),
    "grouped": (convolution(32, 32, 3, groups=4), (1, 32, 12, 12)),
    "no whole quads": (convolution(5, 19, 3), (1, 5, 9, 9)),
    "transposed": (partial(nn.ConvTranspose2d, 16, 8, 4, stride=2, padding=1), (1, 16, 9, 9)),
    "dilated": (convolution(8, 8, 3, dilation=2), (1, 8, 12, 12)),
    "1-D": (partial(nn.Conv1d, 16, 16, 9, padding=4), (1, 16, 50)),
    "3-D": (partial(nn.Conv3d, 8, 8, 3, padding=1), (1, 8, 6, 9, 9)),
    "fully connected": (linear(64, 40), (6, 64)),
    "with a bias": (partial(nn.Linear, 64, 40), (2, 3, 64)),
}
"""Layers, and the sizes of their images."""
QUICK_LAYERS = ("3x3", "strided", "depthwise", "no whole quads", "fully connected", "with a bias")
OTHER_LAYERS = tuple(name for name in LAYERS if name not in QUICK_LAYERS)


class Layers(nn.Module):
    """Layers side by side, each of an image of its own: one program for all of them."""

    def __init__(self, layers: Mapping[str, Layer]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(build() for build, _ in layers.values())

    def forward(self, *images: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(layer(image) for layer, image in zip(self.layers, images, strict=True))


def results_of(
    model: nn.Module, inputs: Sequence[torch.Tensor], target: str = "cpu", **options: Any
) -> list[Exact]:
    """Those of the program, none of whose layers fails, on the device of the target, a CPU on one thread."""
    is_cpu = target.partition(":")[0] == "cpu"
    threads = 1 if is_cpu else None
    imported = iree.winograd.import_torch(model, *inputs)
    compiled = iree.winograd.compile(imported, target=target, strict=True, threads=threads, **options)
    device = "local-task" if is_cpu else target.partition(":")[0]
    results = iree.winograd.load(compiled, device, threads=threads)(*inputs)
    listed = results if isinstance(results, tuple | list) else (results,)
    return [torch.as_tensor(each).double().numpy() for each in listed]


def in_double(model: nn.Module, inputs: Sequence[torch.Tensor]) -> list[Exact]:
    with torch.no_grad():
        results = copy.deepcopy(model).double()(*(each.double() for each in inputs))
    return [each.numpy() for each in (results if isinstance(results, tuple) else (results,))]


def expect_rounded_once(
    results: list[Exact], expected: list[Exact], type_: torch.dtype, sum_error: float
) -> None:
    """To half a unit in the last place beside the error of the sum in f32."""
    for result, exact in zip(results, expected, strict=True):
        bound = ROUNDOFF[type_] * np.abs(exact) + SMALLEST[type_] + sum_error * np.abs(exact).max()
        assert np.all(np.abs(result - exact) <= bound)


def expect_as_accurate_as_torch(
    model: nn.Module, exact: nn.Module, image: torch.Tensor, type_: torch.dtype, target: str = "cpu"
) -> None:
    """Both round some fifty times, in different places. Of all outputs: the largest error is chance."""
    (expected,) = in_double(exact, [image])
    with torch.no_grad():
        theirs = model(image).double().numpy()
    bound = 1.5 * np.linalg.norm(theirs - expected) + ROUNDOFF[type_] * np.linalg.norm(expected)
    (result,) = results_of(model, [image], target)
    assert np.linalg.norm(result - expected) <= bound


class Network(nn.Module):
    """What lies between convolutions: normalization, activations, shortcuts, pooling, resizing, attention."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, padding=1)
        self.batch_norm = nn.BatchNorm2d(32)
        self.squeezed = nn.Conv2d(32, 32, 1)
        self.depthwise = nn.Conv2d(32, 32, 3, padding=1, groups=32)
        self.group_norm = nn.GroupNorm(4, 32)
        self.down = nn.Conv2d(32, 32, 3, stride=2, padding=1)
        self.norm = nn.LayerNorm(32)
        self.attention = nn.MultiheadAttention(32, 2, batch_first=True)
        self.head = nn.Linear(32, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.batch_norm(self.stem(image)))
        scale = torch.sigmoid(self.squeezed(x.mean((2, 3), keepdim=True)))
        x = x + functional.silu(self.group_norm(self.depthwise(x) * scale))
        small = functional.avg_pool2d(functional.max_pool2d(self.down(x), 3, 1, 1), 2)
        x = functional.interpolate(small, scale_factor=2, mode="nearest")
        bent = functional.gelu(self.down(x))
        x = torch.cat([x, bent.repeat_interleave(2, 2).repeat_interleave(2, 3)], 2)
        tokens = self.norm(x.flatten(2).transpose(1, 2))
        tokens = tokens + self.attention(tokens, tokens, tokens, need_weights=False)[0]
        return self.head(tokens.mean(1))


def expect_a_network_as_accurate_as_torch(type_: torch.dtype, target: str = "cpu") -> None:
    torch.manual_seed(0)
    network = Network().eval()
    network.batch_norm.running_var.uniform_(0.5, 2)
    network, image = network.to(type_), torch.randn(2, 3, 16, 16).to(type_)
    expect_as_accurate_as_torch(network, network, image, type_, target)


class _Doubled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(1, 1, 1, bias=False)
        self.convolution.weight.data.fill_(2)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.convolution(image)


class _DoubledQuarter(_Doubled):
    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.convolution(image) / 4


def expect_infinity_beyond(type_: torch.dtype, smallest: float, target: str = "cpu") -> None:
    """Beyond f16's 65504 what is stored is infinity, as in f16 itself; NaN stays NaN.

    A kernel goes on in f32, so that what comes back into the range before it is stored may be a number.
    """
    most = torch.finfo(type_).max
    numbers = [0.61 * most, most, -0.61 * most, float("nan"), float("inf"), smallest, 0.0, -3.0]
    image = torch.tensor(numbers, dtype=type_).reshape(1, 1, 2, 4)
    for model in (_Doubled().eval().to(type_), _DoubledQuarter().eval().to(type_)):
        with torch.no_grad():
            expected, half = model(image).double().numpy(), image.double().numpy() / 2
        (result,) = results_of(model, [image], target)
        if isinstance(model, _DoubledQuarter):
            came_back = np.isinf(expected) & (result == half)
            expected = np.where(came_back, half, expected)
        np.testing.assert_array_equal(result, expected)
