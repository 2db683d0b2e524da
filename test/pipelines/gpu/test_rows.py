"""Softmax and layer normalization of rows by kernels, on Vulkan; rows are no whole quads, too."""

from __future__ import annotations

from pathlib import Path

import iree.winograd
import numpy as np
import numpy.typing as npt
import pytest
import torch
from iree.winograd.compiling.program import compile
from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.gpu.kernels.reductions.rows import SharedRows
from orders import merged, rotated, windows
from ptx_interpreter import Kernel
from softmax_program import program
from torch import nn
from wide import wide, wide_combinations

Array = npt.NDArray[np.float32]
Exact = npt.NDArray[np.float64]

UNIT_ROUNDOFF = 2.0**-24
SHAPES = [(2, 5, 197), (3, 16), (700, 64), (7, 1, 8192)]


class Rows(nn.Module):
    """Softmax, and layer normalization with and without parameters."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.plain, self.affine = nn.LayerNorm(length, elementwise_affine=False), nn.LayerNorm(length)
        generator = torch.Generator().manual_seed(length)
        nn.init.normal_(self.affine.weight, generator=generator)
        nn.init.normal_(self.affine.bias, generator=generator)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.softmax(x, -1), self.plain(x), self.affine(x)


def exact_softmax(x: Array) -> Exact:
    exponentials = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    result: Exact = exponentials / exponentials.sum(-1, keepdims=True)
    return result


def softmax_bound(length: int) -> float:
    """The relative error for differences of at most 10.

    A difference is rounded once; Vulkan's exponential is within 3 + 2 * 10 units of the last place, which are
    two roundings each; then come a sum of as many, a division within 2.5 units and a product.
    """
    return 1.01 * (10 + 2 * (46 + length) + 6) * UNIT_ROUNDOFF


def layer_norm_bound(x: Array, scale: Array, shift: Array) -> tuple[Exact, Exact]:
    """The result in float64, and a bound of the error of one in float32 with sums in any order."""
    u, length = UNIT_ROUNDOFF, x.shape[-1]
    x64 = x.astype(np.float64)
    centred = x64 - x64.mean(-1, keepdims=True)
    variance = (centred**2).mean(-1, keepdims=True) + 1e-5
    normal = centred / np.sqrt(variance)
    # Of the mean: as many roundings as there are terms, and those of a quotient within 2.5 units.
    of_mean = (length + 5) * u * np.abs(x64).mean(-1, keepdims=True)
    # A shift of the mean adds its square to the variance. Then come square, sum, quotient and epsilon.
    of_variance = (length + 9) * u + of_mean**2 / variance
    # Half of that for the inverse root, whose quotient and root are within 2.5 and 3 units.
    relative = of_variance / 2 + 13 * u
    bound = np.abs(scale) * (of_mean / np.sqrt(variance) + np.abs(normal) * relative)
    result = normal * scale + shift
    return result, 1.01 * (bound + u * (np.abs(normal * scale) + np.abs(result)))


@pytest.mark.parametrize("shape", [SHAPES[0], *wide(SHAPES[1:])])
def test_rows_are_those_of_their_definition(shape: tuple[int, ...], gpu_target: str, gpu_device: str) -> None:
    model = Rows(shape[-1]).eval()
    # The mean is larger than the deviation, and exponentials of it are infinite.
    x = np.random.default_rng(0).uniform(95, 105, shape).astype(np.float32)
    compiled = compile(iree.winograd.import_torch(model, torch.from_numpy(x)), target=gpu_target, strict=True)
    assert all(name in bytes(compiled) for name in (b"winograd_softmax", b"winograd_layer_norm"))
    softmax, plain, affine = map(np.asarray, iree.winograd.load(compiled, gpu_device)(x))
    np.testing.assert_allclose(softmax, exact_softmax(x), rtol=softmax_bound(shape[-1]))
    one, zero = np.ones(shape[-1], np.float32), np.zeros(shape[-1], np.float32)
    scale, shift = (each.detach().numpy() for each in (model.affine.weight, model.affine.bias))
    for result, parameters in ((plain, (one, zero)), (affine, (scale, shift))):
        expected, bound = layer_norm_bound(x, *parameters)
        assert (np.abs(result - expected) <= bound).all()


def test_rows_of_images_of_any_size(gpu_target: str, gpu_device: str) -> None:
    layer = nn.LayerNorm(20, elementwise_affine=False)
    sizes = {dimension: torch.export.Dim(f"size_{dimension}") for dimension in (1, 2)}
    exported = torch.export.export(layer, (torch.zeros(1, 5, 6, 20),), dynamic_shapes=(sizes,))
    compiled = compile(iree.winograd.import_torch(exported), target=gpu_target, strict=True)
    assert b"winograd_layer_norm" in bytes(compiled)
    loaded = iree.winograd.load(compiled, gpu_device)
    for size in ((5, 6), (9, 11)):
        x = np.random.default_rng(0).normal(size=(1, *size, 20)).astype(np.float32)
        expected, bound = layer_norm_bound(x, np.ones(20, np.float32), np.zeros(20, np.float32))
        assert (np.abs(np.asarray(loaded(x)) - expected) <= bound).all()


@pytest.mark.parametrize("length", [2052, *wide([384, 20])])
def test_warps_combine_the_shares_of_their_threads(length: int, tmp_path: Path) -> None:
    """On NVIDIA's GPUs: several warps of a row, one, and a part of one."""
    x = np.random.default_rng(0).uniform(95, 105, (3, length)).astype(np.float32)
    flags = [f"--iree-hal-dump-executable-files-to={tmp_path}"]
    imported = iree.winograd.import_torch(Rows(length).eval(), torch.from_numpy(x))
    compile(imported, target="cuda:sm_90a", strict=True, flags=flags)
    (text,) = (path.read_text() for path in tmp_path.glob("*.ptx"))
    # Results lie in one buffer.
    results = np.zeros((2, ceil_div(x.nbytes, 64) * 16), np.float32)
    workgroups = [(number, 0, 0) for number in range(ceil_div(len(x), SharedRows(length).rows))]
    for name in ("softmax", "layer_norm"):
        Kernel.parsed(text, f"winograd_{name}_1x{length}").run([x, results], iter(workgroups))
    softmax, normal = (each[: x.size].reshape(x.shape) for each in results)
    np.testing.assert_allclose(softmax, exact_softmax(x), rtol=softmax_bound(length))
    expected, bound = layer_norm_bound(x, *np.array([[1.0], [0.0]], np.float32))
    assert (np.abs(normal - expected) <= bound).all()


@pytest.mark.parametrize(
    ("length", "safe"), [(19, True), *wide_combinations([(33, False), (33, True), (19, False)])]
)
def test_a_batch_known_at_run_time_and_rows_of_minus_infinity(
    length: int, safe: bool, gpu_target: str, gpu_device: str
) -> None:
    compiled = compile(program(("?", "3", str(length)), safe=safe), target=gpu_target, strict=True)
    assert (b"winograd_safe_softmax" in bytes(compiled)) == safe
    loaded = iree.winograd.load(compiled, gpu_device)
    for batch in (1, 50):
        x = np.random.default_rng(batch).uniform(-5, 5, (batch, 3, length)).astype(np.float32)
        x[0, 1] = -np.inf
        softmax = np.asarray(loaded(x))
        lost = softmax[0, 1]
        assert (lost == 0).all() if safe else np.isnan(lost).all()
        kept = [0, 2]
        np.testing.assert_allclose(softmax[:, kept], exact_softmax(x[:, kept]), rtol=softmax_bound(length))


class Classes(nn.Module):
    """Softmax of the channels of an image that leaves the program, and of one that a convolution reads."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first, self.last = (nn.Conv2d(channels, channels, 1, bias=False) for _ in range(2))
        for convolution in (self.first, self.last):
            nn.init.dirac_(convolution.weight)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        classes = self.first(x)
        return torch.softmax(2 * classes, 1), self.last(torch.softmax(classes, 1))


@pytest.mark.parametrize("size", [(21, 12), *wide([(32, 7), (19, 9)])])
def test_channels_are_rows_or_columns(size: tuple[int, int], gpu_target: str, gpu_device: str) -> None:
    """Of so many channels of images of so many columns."""
    channels, width = size
    model = Classes(channels).eval()
    # Multiples of 2^-4, which matrix units multiply exactly.
    x = np.random.default_rng(0).integers(-40, 40, (2, channels, 6, width)).astype(np.float32) / 16
    compiled = compile(iree.winograd.import_torch(model, torch.from_numpy(x)), target=gpu_target, strict=True)
    pixels = 6 * width
    # Channels of the image that leaves the program are columns, in its own order.
    for name in (f"winograd_softmax_{pixels}x{channels}", f"winograd_column_softmax_2x{channels}x{pixels}"):
        assert name.encode() in bytes(compiled)
    assert b"_reduction_" not in bytes(compiled)
    for result, given in zip(iree.winograd.load(compiled, gpu_device)(x), (2 * x, x), strict=True):
        exact = np.moveaxis(exact_softmax(np.moveaxis(given, 1, -1)), -1, 1)
        # Filters that read one channel round what they read twice on matrix units.
        np.testing.assert_allclose(
            np.asarray(result),
            exact,
            rtol=softmax_bound(channels) + 2 * UNIT_ROUNDOFF,
            atol=2 * UNIT_ROUNDOFF,
        )


class Ordered(nn.Module):
    """Layer normalization of rows that are windows behind it, and of those that were patches before."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.row, self.merged = (
            nn.LayerNorm(each, elementwise_affine=False) for each in (length, 4 * length)
        )

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return windows(rotated(self.row(x), -3)), self.merged(merged(x))


@pytest.mark.parametrize("length", [20, *wide([17])])
def test_rows_in_another_order(length: int, gpu_target: str, gpu_device: str) -> None:
    x = np.random.default_rng(0).uniform(95, 105, (2, 8, 12, length)).astype(np.float32)
    imported = iree.winograd.import_torch(Ordered(length).eval(), torch.from_numpy(x))
    compiled = compile(imported, target=gpu_target, strict=True)
    # Nothing is copied by itself but patches whose quads are none of the image.
    assert b"slow_memcpy" not in bytes(compiled)
    assert (b"transpose" in bytes(compiled)) == (length % 4 > 0)
    behind, before = map(np.asarray, iree.winograd.load(compiled, gpu_device)(x))
    one, zero = np.ones(1, np.float32), np.zeros(1, np.float32)
    exact, bound = (
        windows(rotated(torch.from_numpy(each), -3)).numpy() for each in layer_norm_bound(x, one, zero)
    )
    assert (np.abs(behind - exact) <= bound).all()
    exact, bound = layer_norm_bound(merged(torch.from_numpy(x)).numpy(), one, zero)
    assert (np.abs(before - exact) <= bound).all()


@pytest.mark.parametrize("target", wide(["cuda:sm_80", "hip:gfx942"]))
def test_kernels_of_rows_compile_for_all_targets(target: str) -> None:
    for length in (197, 192):
        imported = iree.winograd.import_torch(Rows(length).eval(), torch.zeros(2, 7, length))
        compiled = bytes(compile(imported, target=target, strict=True))
        assert b"winograd_softmax" in compiled and b"winograd_layer_norm" in compiled
