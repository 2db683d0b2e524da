"""Normalization of groups by moments of parts of an image, in f32 and in half precision."""

from __future__ import annotations

from dataclasses import dataclass

import iree.winograd
import numpy as np
import pytest
import torch
from group_norm_program import ROUNDINGS, UNIT_ROUNDOFF, Normalized, activated, normalized
from half_precision import STORED_ROUNDOFF
from iree.winograd.passes.match.normalizations.image_sum import SummedExtents
from iree.winograd.pipelines.cpu.kernels.group_moments import GroupMomentsKernel, moments_misfit
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from torch import nn
from wide import wide

TARGET = CpuTarget.of("znver4", "+avx2,+fma,+f16c,+avx512f,+avx512vl,+avx512bf16")


@dataclass(frozen=True)
class Image:
    batch: int
    channels: int
    groups: int
    size: tuple[int, int]
    type: torch.dtype = torch.float32

    @property
    def kernel(self) -> GroupMomentsKernel:
        pixels = self.size[0] * self.size[1]
        return GroupMomentsKernel(
            SummedExtents(self.batch, pixels, self.groups, self.channels // self.groups), TARGET
        )


IMAGES = {
    "groups of ten channels": Image(2, 80, 8, (12, 20)),
    "one vector, parts of half precision": Image(1, 16, 4, (96, 100), torch.bfloat16),
    "few groups of many channels": Image(1, 96, 2, (9, 8), torch.float16),
    "several parts": Image(2, 512, 32, (20, 20)),
    "single channels": Image(2, 48, 48, (17, 19), torch.bfloat16),
    "groups of a vector": Image(1, 64, 4, (13, 15)),
}


@pytest.mark.avx512
@pytest.mark.parametrize("name", wide(IMAGES))
def test_normalized_groups_are_those_of_float64(name: str) -> None:
    image = IMAGES[name]
    torch.manual_seed(0)
    model = Normalized(image.channels, image.groups).eval().to(image.type)
    x = (torch.randn(image.batch, image.channels, *image.size) + 3).to(image.type)
    compiled = bytes(iree.winograd.compile(iree.winograd.import_torch(model, x), threads=2, strict=True))
    assert b"winograd_moments" in compiled and b"winograd_group_factors" in compiled
    result = iree.winograd.load(compiled, threads=2)(x)
    weight, bias = (each.detach().double().numpy() for each in model.norm.parameters())
    exact, bound = normalized(x.double().numpy(), image.groups, weight, bias)
    # Half precision rounds what is normalized, and what is made of it.
    stored = STORED_ROUNDOFF[image.type]
    expected, bound = activated(exact, bound + stored * np.abs(exact))
    products = np.abs(expected).max() * UNIT_ROUNDOFF * 8
    rounded = stored * (np.abs(expected) + bound) * (1 + stored)
    assert (np.abs(result.double().numpy() - expected) <= bound + products + rounded).all()


def test_groups_of_as_many_pixels_as_come() -> None:
    """Sums of all 400000 numbers of a group, one after the other, would be off by 1e-4 in f32."""
    torch.manual_seed(0)
    model, size = Normalized(16, 2).eval(), torch.export.Dim.AUTO
    example = torch.zeros(1, 16, 20, 30)
    exported = torch.export.export(model, (example,), dynamic_shapes=({2: size, 3: size},))
    compiled = iree.winograd.compile(iree.winograd.import_torch(exported), threads=1, strict=True)
    x = torch.randn(1, 16, 250, 200) + 3
    result = iree.winograd.load(compiled, device="local-sync")(x.numpy())
    weight, bias = (each.detach().double().numpy() for each in model.norm.parameters())
    exact, bound = normalized(x.double().numpy(), 2, weight, bias)
    # Of a sum in f64 its rounding is left, and those of squares, of means, and of what is made of them.
    expected, bound = activated(exact, 16 / ROUNDINGS * bound)
    products = np.abs(expected).max() * UNIT_ROUNDOFF * 8
    assert (np.abs(np.asarray(result) - expected) <= bound + products).all()


def test_channels_of_as_many_pixels_as_come() -> None:
    """Of one image: calls of any height but 1 failed."""
    torch.manual_seed(0)
    model, size = Normalized(16, 16).eval(), torch.export.Dim.AUTO
    exported = torch.export.export(model, (torch.zeros(1, 16, 20, 30),), dynamic_shapes=({2: size, 3: size},))
    compiled = iree.winograd.compile(iree.winograd.import_torch(exported), threads=1, strict=True)
    program = iree.winograd.load(compiled, device="local-sync")
    weight, bias = (each.detach().double().numpy() for each in model.norm.parameters())
    for height, width in ((20, 30), (1, 50), (97, 61)):
        x = torch.randn(1, 16, height, width) + 3
        exact, bound = normalized(x.double().numpy(), 16, weight, bias)
        expected, bound = activated(exact, bound)
        products = np.abs(expected).max() * UNIT_ROUNDOFF * 8
        assert (np.abs(np.asarray(program(x.numpy())) - expected) <= bound + products).all()


@pytest.mark.avx512
def test_a_large_mean_cancels_nothing() -> None:
    """Deviations of 1 from a mean of 1000, which a difference of sums of squares would lose."""
    torch.manual_seed(0)
    model = Normalized(64, 8).eval()
    x = torch.randn(1, 64, 32, 32) + 1000
    compiled = bytes(iree.winograd.compile(iree.winograd.import_torch(model, x), threads=1, strict=True))
    assert b"winograd_moments" in compiled
    result = np.asarray(iree.winograd.load(compiled, device="local-sync")(x.numpy()))
    with torch.no_grad():
        expected = model.double()(x.double()).numpy()
    # Of numbers that are rounded to 2^-14, of which 1024 each are added.
    assert np.abs(result - expected).max() <= 2.0**-14 * np.sqrt(1024) * np.abs(expected).max()


@pytest.mark.avx512
def test_an_argument_of_half_precision_is_read_once_channels_last() -> None:
    """Nothing is left to IREE."""
    model = nn.Sequential(nn.GroupNorm(8, 80), nn.SiLU(), nn.Conv2d(80, 32, 3, padding=1)).to(torch.bfloat16)
    x = torch.randn(1, 80, 12, 12).to(torch.bfloat16)
    compiled = bytes(iree.winograd.compile(iree.winograd.import_torch(model, x), threads=1, strict=True))
    assert b"winograd_channels_last_144x80" in compiled and b"winograd_moments_1x144x8x10" in compiled
    assert b"reduction" not in compiled and b"winograd_elementwise_12x12x80" in compiled
    assert b"main_dispatch" not in compiled
    result = iree.winograd.load(compiled, device="local-sync")(x)
    with torch.no_grad():
        expected = model.double()(x.double())
    # Two roundings before sums of 720 products, and one behind.
    bound = 2.0**-8 * (np.sqrt(720) * model[2].weight.abs().max() * 4 + expected.abs().max())
    assert (result.double() - expected).abs().max() <= bound


@pytest.mark.parametrize(
    ("image", "part_rows"),
    [(Image(1, 128, 32, (128, 128)), 512), (Image(1, 512, 32, (16, 16)), 128), (Image(1, 64, 4, (7, 7)), 49)],
)
def test_parts_divide_the_pixels(image: Image, part_rows: int) -> None:
    kernel = image.kernel
    assert kernel.part_rows == part_rows
    assert kernel.part_rows * kernel.parts == kernel.extents.rows
    assert moments_misfit(kernel.extents, TARGET) is None


@pytest.mark.parametrize(
    ("image", "target", "reason"),
    [
        (Image(1, 40, 4, (8, 8)), TARGET, "don't fill vectors"),
        (Image(1, 1024, 32, (1, 8191)), TARGET, "no equal parts"),
        (Image(1, 64, 1, (8, 8)), TARGET, "channels-first"),
        (Image(1, 64, 4, (8, 8)), CpuTarget.of("haswell", "+avx2,+fma"), "stored in f32"),
    ],
)
def test_others_are_left(image: Image, target: CpuTarget, reason: str) -> None:
    assert reason in str(moments_misfit(image.kernel.extents, target))
