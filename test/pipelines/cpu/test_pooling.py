"""Pooling: maxima, and sums of integers, which are exact."""

from __future__ import annotations

from itertools import product

import iree.winograd
import numpy as np
import pytest
import torch
from pooling_program import maxima, program, summing
from wide import wide, wide_combinations

POOLINGS = [(3, 2, 1), (3, 1, 1), (2, 2, 1), (5, 1, 2)]
SAMPLE = [("?", 21, POOLINGS[0]), ("2", 5, POOLINGS[3])]
OTHERS = [
    ("2", 16, (2, 2, 0)),
    ("2", 16, POOLINGS[0]),
    ("?", 7, (3, 2, 0)),
    *product(["?"], [5], POOLINGS[1:3]),
]


@pytest.mark.parametrize("case", [*SAMPLE, *wide(OTHERS)], ids=str)
def test_pools_images(case: tuple[str, int, tuple[int, int, int]]) -> None:
    batch, channels, (window, stride, padding) = case
    text = program(batch, (11, 8), channels, window, stride, padding)
    compiled = iree.winograd.compile(text, target="cpu", threads=2, strict=True)
    assert b"winograd_max_pool" in compiled
    image = np.random.default_rng(0).uniform(-1, 1, (2, 11, 8, channels)).astype(np.float32)
    for threads in (1, 2):
        result = np.asarray(iree.winograd.load(compiled, threads=threads)(image))
        np.testing.assert_array_equal(result, maxima(image, window, stride, padding))


@pytest.mark.parametrize(
    ("batch", "channels", "pooling"),
    [
        ("?", 5, (2, 2, 0)),
        *wide_combinations([("1", 21, (3, 2, 1)), ("1", 16, (5, 1, 2)), ("?", 3, (1, 2, 0))]),
    ],
)
def test_pools_images_of_any_size(batch: str, channels: int, pooling: tuple[int, int, int]) -> None:
    compiled = iree.winograd.compile(program(batch, None, channels, *pooling), threads=1, strict=True)
    assert b"winograd_max_pool" in compiled
    run = iree.winograd.load(compiled, device="local-sync")
    random, (window, _, padding) = np.random.default_rng(0), pooling
    for size in [(1, 1), (1, 13), (7, 1), (2, 2), (11, 5), (31, 40), (0, 5)]:
        if min(size) + 2 * padding < window:
            continue
        for images in {1, 1 if batch == "1" else 3, 1 if batch == "1" else 0}:
            image = random.uniform(-1, 1, (images, *size, channels)).astype(np.float32)
            np.testing.assert_array_equal(np.asarray(run(image)), maxima(image, *pooling))


@pytest.mark.parametrize(
    ("batch", "channels", "pooling"),
    [("?", 5, (3, 2, 1)), *wide_combinations([("1", 21, (2, 2, 0)), ("1", 16, (5, 1, 4))])],
)
def test_sums_windows_of_any_size(batch: str, channels: int, pooling: tuple[int, int, int]) -> None:
    text = summing(program(batch, None, channels, *pooling))
    compiled = iree.winograd.compile(text, threads=1, strict=True)
    window, stride, padding = pooling
    assert b"winograd_window_sum_%dx%d_anyxanyx%d" % (window, window, channels) in compiled
    assert b"_elementwise" not in compiled, "halves are computed with the sums"
    run = iree.winograd.load(compiled, device="local-sync")
    random = np.random.default_rng(0)
    for size in [(1, 1), (1, 13), (7, 1), (2, 2), (11, 5), (31, 40), (0, 5)]:
        if min(size) + 2 * padding < window:
            continue
        for images in {1, 1 if batch == "1" else 3, 1 if batch == "1" else 0}:
            image = random.integers(-99, 100, (images, *size, channels)).astype(np.float32)
            around = ((0, 0), (padding, padding), (padding, padding), (0, 0))
            windows = np.lib.stride_tricks.sliding_window_view(
                np.pad(image, around), (window, window), axis=(1, 2)
            )[:, ::stride, ::stride]
            np.testing.assert_array_equal(np.asarray(run(image)), windows.sum(axis=(-2, -1)) / 2)


def test_keeps_what_is_not_a_number() -> None:
    compiled = iree.winograd.compile(program("1", (6, 6), 16, 3, 2, 1), target="cpu", strict=True)
    image = np.zeros((1, 6, 6, 16), np.float32)
    # The convolution before spreads it over the channels of a pixel.
    image[0, 0, 0, 0] = np.nan
    result = np.asarray(iree.winograd.load(compiled, device="local-sync")(image))
    expected = np.zeros((1, 3, 3, 16), bool)
    expected[0, 0, 0] = True
    np.testing.assert_array_equal(np.isnan(result), expected)


class Volumes(torch.nn.Module):
    """Maxima of windows of volumes behind a convolution, which gives its inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv3d(8, 8, 1, bias=False)
        self.convolution.weight.data = torch.eye(8).reshape(8, 8, 1, 1, 1)

    def forward(self, volume: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.max_pool3d(self.convolution(volume), (1, 2, 3), (1, 2, 1))


@pytest.mark.wide
def test_pools_volumes_of_any_size() -> None:
    sizes = {2 + d: torch.export.Dim(f"size_{d}", min=6, max=99) for d in range(3)}
    exported = torch.export.export(Volumes(), (torch.zeros(1, 8, 6, 7, 8),), dynamic_shapes=(sizes,))
    compiled = iree.winograd.compile(iree.winograd.import_torch(exported), threads=1, strict=True)
    assert b"winograd_max_pool_1x2x3_anyxanyxanyx8" in compiled
    run = iree.winograd.load(compiled, device="local-sync")
    for size in [(6, 7, 8), (7, 6, 6), (6, 13, 31)]:
        volume = torch.randn(1, 8, *size)
        expected = torch.nn.functional.max_pool3d(volume, (1, 2, 3), (1, 2, 1)).numpy()
        np.testing.assert_array_equal(np.asarray(run(volume.numpy())), expected)


class PooledHalf(torch.nn.Module):
    """Maxima between filters of a single tap, which keep each channel as it is."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.before, self.after = (
            torch.nn.Conv2d(channels, channels, 1, groups=channels, bias=False) for _ in range(2)
        )
        for each in (self.before, self.after):
            torch.nn.init.ones_(each.weight)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        pooled = torch.nn.functional.max_pool2d(self.before(image), 3, 2, 1)
        result: torch.Tensor = self.after(pooled)
        return result


@pytest.mark.avx512
@pytest.mark.parametrize("type_", wide([torch.bfloat16, torch.float16]), ids=str)
@pytest.mark.parametrize("channels", [64, 40])
def test_pools_any_numbers_of_half_precision(type_: torch.dtype, channels: int) -> None:
    """Bit patterns of any number that isn't denormal, which a rounding to bf16 takes for zero, of what is no
    number, of either sign, and rows of nothing but infinities."""
    bits = np.random.default_rng(0).permutation(1 << 16)[: 31 * 22 * channels].astype(np.uint16)
    image = torch.from_numpy(bits.view(np.int16)).view(type_).reshape(1, channels, 31, 22).clone()
    image[image.abs() < torch.finfo(type_).tiny] = 0
    image[:, :, 8:12] = -torch.inf
    model = PooledHalf(channels).to(type_).eval()
    compiled = bytes(iree.winograd.compile(iree.winograd.import_torch(model, image), threads=1, strict=True))
    assert b"winograd_max_pool" in compiled
    result = iree.winograd.load(compiled, device="local-sync")(image)
    expected = torch.nn.functional.max_pool2d(image.double(), 3, 2, 1)
    torch.testing.assert_close(result.double(), expected, rtol=0, atol=0, equal_nan=True)
