"""Max pooling on Vulkan, against its definition; results are equal, NaN aside, which Vulkan may lose."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pytest
from checked_programs import compile_rewritten
from iree import winograd
from pooling_program import maxima, program, summing
from wide import sampled, wide_combinations

Array = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Pooling:
    """Of an image of 2 x `size` x 8, which is the batch that programs with a dynamic one are called with."""

    size: tuple[int, int]
    window: tuple[int, int]
    strides: tuple[int, int] = (2, 2)
    low: tuple[int, int] = (0, 0)
    high: tuple[int, int] = (0, 0)
    dynamic: bool = False

    @property
    def outputs(self) -> list[int]:
        padded = [sum(sizes) for sizes in zip(self.size, self.low, self.high, strict=True)]
        return [
            (whole - part) // stride + 1
            for whole, part, stride in zip(padded, self.window, self.strides, strict=True)
        ]

    @property
    def text(self) -> str:
        batch = "?" if self.dynamic else "2"
        size = " ".join(["%n"] * self.dynamic)
        padded = [sum(sizes) for sizes in zip(self.size, self.low, self.high, strict=True)]
        image, larger, result = (
            f"tensor<{batch}x{h}x{w}x8xf32>" for h, w in (self.size, padded, self.outputs)
        )
        rows, columns = zip(self.low, self.high, strict=True)
        window = f"tensor<{self.window[0]}x{self.window[1]}xf32>"
        return f"""
func.func @main(%x: {image}) -> {result} {{
  %zero = arith.constant 0 : index
  %n = tensor.dim %x, %zero : {image}
  %lowest = arith.constant 0xFF800000 : f32
  %p = tensor.pad %x low[0, {rows[0]}, {columns[0]}, 0] high[0, {rows[1]}, {columns[1]}, 0] {{
  ^bb0(%i: index, %h: index, %w: index, %c: index):
    tensor.yield %lowest : f32
  }} : {image} to {larger}
  %window = tensor.empty() : {window}
  %empty = tensor.empty({size}) : {result}
  %init = linalg.fill ins(%lowest : f32) outs(%empty : {result}) -> {result}
  %r = linalg.pooling_nhwc_max {{
    dilations = dense<1> : tensor<2xi64>, strides = dense<{list(self.strides)}> : tensor<2xi64>
  }} ins(%p, %window : {larger}, {window}) outs(%init : {result}) -> {result}
  return %r : {result}
}}
"""

    def pooled(self, image: Array) -> Array:
        pads = [(0, 0), *zip(self.low, self.high, strict=True), (0, 0)]
        padded = np.pad(image, pads, constant_values=-np.inf)
        windows = np.lib.stride_tricks.sliding_window_view(padded, self.window, axis=(1, 2))
        maxima: Array = windows[:, :: self.strides[0], :: self.strides[1]].max(axis=(-2, -1))
        return maxima


RESNET = Pooling((10, 12), (3, 3), low=(1, 1), high=(1, 1))
POOLINGS = [
    RESNET,
    replace(RESNET, dynamic=True),
    Pooling((9, 11), (3, 3), low=(0, 1), high=(2, 1)),
    Pooling((8, 8), (2, 2)),
    Pooling((7, 9), (5, 5), strides=(1, 1), low=(2, 2), high=(2, 2)),
    Pooling((7, 9), (1, 3), strides=(3, 1), low=(0, 2), high=(0, 1)),
]

SIZES = [(2, 2), (3, 13), (17, 3), (11, 5), (31, 40)]
"""Of images of any size."""


@pytest.mark.parametrize("pooling", sampled(POOLINGS, POOLINGS[1:3]), ids=str)
def test_agrees_with_its_definition(pooling: Pooling, gpu_target: str, gpu_device: str) -> None:
    image = np.random.default_rng(0).standard_normal((2, *pooling.size, 8)).astype(np.float32)
    image[0, 0, 0, 0], image[1, -1, -1, 1] = -np.inf, np.inf
    program = winograd.load(compile_rewritten(pooling.text, gpu_target), gpu_device)
    np.testing.assert_array_equal(program(image), pooling.pooled(image))


@pytest.mark.parametrize(
    ("batch", "channels", "pooling"),
    [("?", 5, (3, 2, 1)), *wide_combinations([("1", 16, (5, 1, 2)), ("1", 8, (2, 2, 0))])],
)
def test_pools_images_of_any_size(
    batch: str, channels: int, pooling: tuple[int, int, int], gpu_target: str, gpu_device: str
) -> None:
    text = program(batch, None, channels, *pooling)
    compiled = winograd.compile(text, target=gpu_target, strict=True)
    assert b"winograd_window_max_%dx%d_anyxanyx%d" % (*pooling[:1], *pooling[:1], channels) in compiled
    run, random = winograd.load(compiled, gpu_device), np.random.default_rng(0)
    for size in SIZES:
        for images in {1, 1 if batch == "1" else 3}:
            image = random.uniform(-1, 1, (images, *size, channels)).astype(np.float32)
            # Products with ones and zeros are exact, but for split ones on matrix units: as sums in f32.
            rounded = channels * np.finfo(np.float32).eps / 2
            np.testing.assert_allclose(np.asarray(run(image)), maxima(image, *pooling), rtol=rounded)


@pytest.mark.parametrize(
    ("batch", "channels", "pooling"), [("?", 8, (3, 2, 1)), *wide_combinations([("1", 5, (2, 2, 0))])]
)
def test_sums_windows_of_any_size(
    batch: str, channels: int, pooling: tuple[int, int, int], gpu_target: str, gpu_device: str
) -> None:
    compiled = winograd.compile(
        summing(program(batch, None, channels, *pooling)), target=gpu_target, strict=True
    )
    assert b"winograd_window_sum" in compiled
    run, random = winograd.load(compiled, gpu_device), np.random.default_rng(0)
    window, stride, padding = pooling
    for size in SIZES:
        image = random.integers(-99, 100, (2 if batch == "?" else 1, *size, channels)).astype(np.float32)
        padded = np.pad(image, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (window, window), axis=(1, 2))
        expected = windows[:, ::stride, ::stride].sum(axis=(-2, -1)) / 2
        # The identity behind them is exact, but for split products on matrix units, whose parts are those of
        # a pixel's largest channel: as sums in f32.
        rounded = channels * np.finfo(np.float32).eps / 2 * abs(expected).max(axis=-1, keepdims=True)
        assert np.all(abs(np.asarray(run(image)) - expected) <= rounded)
