"""Sums, means and variances over pixels and groups of channels, in both layouts, by kernels on Vulkan."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path

import iree.winograd
import numpy as np
import pytest
import torch
from group_norm_program import (
    ROUNDINGS,
    UNIT_ROUNDOFF,
    Normalized,
    NormalizedByArguments,
    activated,
    normalized,
)
from iree.winograd.compiling.program import Source
from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.passes.match.normalizations.image_sum import SummedExtents
from iree.winograd.pipelines.emission.work import Sizes
from iree.winograd.pipelines.gpu import tensor_kernels
from iree.winograd.pipelines.gpu.device.memory import OCTET
from iree.winograd.pipelines.gpu.kernels.images.elementwise import ELEMENTWISE_THREADS
from iree.winograd.pipelines.gpu.kernels.reductions.image_sums import Summed
from iree.winograd.pipelines.gpu.lowerings import sums as sums_lowering
from iree.winograd.pipelines.gpu.lowerings.group_norm import GroupNormLowering
from ptx_interpreter import Kernel
from torch import nn
from wide import wide, wide_combinations

MEAN = 1000.0
"""Many times the deviation: what cancels is lost."""


class Moments(nn.Module):
    """Mean and variance of groups of an image, beside a convolution, for which there are kernels."""

    def __init__(self, channels: int, groups: int, *, channels_last: bool) -> None:
        super().__init__()
        self.groups, self.channels_last = groups, channels_last
        self.convolution = nn.Conv2d(channels, 4, 1)

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        image = image.permute(0, 3, 1, 2) if self.channels_last else image
        groups = image.unflatten(1, (self.groups, -1))
        variance = groups.var((2, 3, 4), correction=0, keepdim=True)
        return groups.mean((2, 3, 4)), variance, self.convolution(image)


@dataclass(frozen=True)
class Image:
    batch: int
    channels: int
    groups: int
    size: tuple[int, int]
    channels_last: bool = True

    @property
    def shape(self) -> tuple[int, ...]:
        size = self.size
        return (
            (self.batch, *size, self.channels) if self.channels_last else (self.batch, self.channels, *size)
        )

    @property
    def imported(self) -> Source:
        torch.manual_seed(0)
        model = Moments(self.channels, self.groups, channels_last=self.channels_last)
        return iree.winograd.import_torch(model.eval(), torch.zeros(self.shape))


LAST = Image(2, 64, 8, (33, 40))
IMAGES = {
    "groups of quads": LAST,
    "groups of three channels": Image(2, 30, 10, (40, 33)),
    "channels that are no quads": Image(2, 35, 35, (32, 32)),
    "few pixels of more channels than a workgroup has": Image(2, 168, 168, (7, 7)),
    "groups of more channels than threads read": Image(1, 1280, 20, (9, 8)),
    "rows that are no quads": Image(2, 24, 24, (31, 33), channels_last=False),
    "long rows": Image(1, 6, 1, (150, 129), channels_last=False),
}


@pytest.mark.parametrize("name", wide(IMAGES))
def test_moments_are_those_of_all_elements_of_a_group(name: str, gpu_target: str, gpu_device: str) -> None:
    image = IMAGES[name]
    generator = np.random.default_rng(0)
    x = (generator.standard_normal(image.shape) + MEAN).astype(np.float32)
    compiled = iree.winograd.compile(image.imported, target=gpu_target, strict=True)
    assert b"winograd_moments" in bytes(compiled)
    mean, variance, _ = iree.winograd.load(compiled, gpu_device)(x)
    exact = x.astype(np.float64)
    exact = exact.transpose(0, 3, 1, 2) if image.channels_last else exact
    groups = exact.reshape(image.batch, image.groups, -1)
    # Every rounding of a mean is of a number below the largest.
    bound = ROUNDINGS * UNIT_ROUNDOFF * np.abs(groups).max()
    assert np.abs(np.asarray(mean) - groups.mean(-1)).max() <= bound
    # What a mean of some is off by is squared where it is added. Differences are rounded, and their squares'
    # sums.
    squares = groups.var(-1)
    spread = np.abs(groups - groups.mean(-1, keepdims=True)).max()
    of_variance = ROUNDINGS * UNIT_ROUNDOFF * spread**2 + 2 * UNIT_ROUNDOFF * MEAN * spread + bound**2
    assert np.abs(np.asarray(variance).reshape(squares.shape) - squares).max() <= of_variance


@pytest.mark.parametrize(("channels", "groups", "size"), wide_combinations([(20, 2, 164), (40, 5, 182)]))
def test_normalized_groups_are_those_of_float64(
    channels: int, groups: int, size: int, gpu_target: str, gpu_device: str
) -> None:
    """Three kernels: moments, what channels are multiplied by and what is added, and the image itself.

    No workgroups hold such groups (`test_group_norm.py`).
    """
    torch.manual_seed(0)
    model = Normalized(channels, groups).eval()
    x = torch.randn(2, channels, size, size) + 3
    compiled = bytes(
        iree.winograd.compile(iree.winograd.import_torch(model, x), target=gpu_target, strict=True)
    )
    kernels = (
        "winograd_moments",
        "winograd_combine_factors",
        f"winograd_elementwise_2x{size}x{size}x{channels}",
    )
    assert all(each.encode() in compiled for each in kernels)
    result = np.asarray(iree.winograd.load(compiled, gpu_device)(x.numpy()))
    weight, bias = (each.detach().double().numpy() for each in model.norm.parameters())
    expected, bound = activated(*normalized(x.double().numpy(), groups, weight, bias))
    products = np.abs(expected).max() * UNIT_ROUNDOFF * 8
    assert (np.abs(result - expected) <= bound + products).all()


class Means(nn.Module):
    """Means over pixels behind filters that read no channel but one."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(channels, channels, 1, bias=False)
        nn.init.dirac_(self.convolution.weight)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.convolution(image).mean((2, 3))


@pytest.mark.parametrize("type_", wide([torch.float16, torch.bfloat16]))
def test_means_in_half_precision_are_rounded_once(
    type_: torch.dtype, gpu_target: str, gpu_device: str
) -> None:
    """The program adds rows first, and rounds their sums and means, and those of all."""
    x = (torch.randint(-8, 9, (4, 64, 64, 33), generator=torch.Generator().manual_seed(0)) / 8).to(type_)
    imported = iree.winograd.import_torch(Means(64).eval().to(type_), x)
    compiled = bytes(iree.winograd.compile(imported, target=gpu_target, strict=True))
    assert b"winograd_sum_4x2112x64x1" in compiled
    result = torch.as_tensor(iree.winograd.load(compiled, gpu_device)(x)).double()
    assert ((result - x.double().mean((2, 3))).abs() <= bound_of_means(x)).all()


@pytest.mark.matrix_units
@pytest.mark.parametrize("type_", [torch.float16, torch.bfloat16])
def test_means_in_half_precision_of_any_size_are_rounded_once(
    type_: torch.dtype, gpu_target: str, gpu_device: str
) -> None:
    """On CUDA: of few pixels, which one kernel sums, and of many."""
    sizes = {2 + d: torch.export.Dim(f"size_{d}") for d in range(2)}
    given = torch.zeros(1, 64, 9, 8, dtype=type_)
    exported = torch.export.export(Means(64).eval().to(type_), (given,), dynamic_shapes=(sizes,))
    compiled = bytes(
        iree.winograd.compile(iree.winograd.import_torch(exported), target=gpu_target, strict=True)
    )
    assert b"winograd_pixel_sums_anyxanyx64" in compiled and b"_reduction_" not in compiled
    program = iree.winograd.load(compiled, gpu_device)
    random = torch.Generator().manual_seed(0)
    for size in [(5, 7), (31, 33), (33, 64), (3, 700)]:
        x = (torch.randint(-8, 9, (1, 64, *size), generator=random) / 8).to(type_)
        result = torch.as_tensor(program(x)).double()
        assert ((result - x.double().mean((2, 3))).abs() <= bound_of_means(x)).all()


def bound_of_means(x: torch.Tensor) -> torch.Tensor:
    """Of means of numbers whose sums are exact in f32: quotients by two products, then a rounding."""
    exact, roundoff = x.double().mean((2, 3)).abs(), torch.finfo(x.dtype).eps / 2
    least = torch.finfo(x.dtype).smallest_normal * roundoff
    return 1.01 * (roundoff + 4 * UNIT_ROUNDOFF) * exact + least


@pytest.mark.parametrize(
    ("type_", "channels"), [(torch.float16, 64), *wide_combinations([(torch.bfloat16, 40)])]
)
def test_means_are_read_by_octets_through_cuda(type_: torch.dtype, channels: int, tmp_path: Path) -> None:
    """The kernel's text is run here."""
    x = (torch.randint(-8, 9, (2, 8, 16, 15), generator=torch.Generator().manual_seed(0)) / 8).to(type_)
    model = nn.Sequential(nn.Conv2d(8, channels, 1), nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, 8, 1))
    flags = [f"--iree-hal-dump-executable-files-to={tmp_path}"]
    imported = iree.winograd.import_torch(model.eval().to(type_), x)
    iree.winograd.compile(imported, target="cuda:sm_90a", strict=True, flags=flags)
    (text,) = (path.read_text() for path in tmp_path.glob("*.ptx"))
    (name,) = re.findall(rf"\.entry (winograd_sum_2x240x{channels}x1)\(", text)
    body = text[text.index(f".entry {name}(") :].partition("\n}")[0]
    assert "ld.global.nc.v4.b32" in body
    # Both lie behind other tensors.
    places = [
        min(int(each or 0) for each in re.findall(rf"{access}\S* [^;]*?\[%rd\d+\+?(\d*)\]", body)) // 2
        for access in (r"ld\.global", r"st\.global")
    ]
    sizes = (2, 16, 15, channels), (2, channels)
    buffers = [
        torch.full((place + prod(size),), torch.nan, dtype=type_)
        for place, size in zip(places, sizes, strict=True)
    ]
    image, result = (
        buffer[place:].view(size) for buffer, place, size in zip(buffers, places, sizes, strict=True)
    )
    image.copy_(torch.randint(-8, 9, image.shape, generator=torch.Generator().manual_seed(1)) / 8)
    # Each of 32 channels, as few as leave enough workgroups, or fewer.
    grid = ((block, 0, n) for block in range(-(-channels // 32)) for n in range(2))
    Kernel.parsed(text, name).run([each.view(torch.int16).numpy() for each in buffers], grid)
    pixels = image.permute(0, 3, 1, 2)
    assert ((result.double() - pixels.double().mean((2, 3))).abs() <= bound_of_means(pixels)).all()


@pytest.mark.parametrize(
    ("type_", "image"),
    [
        (torch.float16, Image(1, 32, 4, (64, 32))),
        # Threads have unequal numbers of rows, or none.
        *wide_combinations([(torch.bfloat16, Image(2, 40, 2, (33, 16)))]),
    ],
)
def test_groups_of_half_precision_are_normalized_by_octets_through_cuda(
    type_: torch.dtype, image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three kernels, whose text is run here, one after the other on the memory that they have in common."""
    monkeypatch.setattr(GroupNormLowering, "schedule", lambda *_: None)
    monkeypatch.setattr(tensor_kernels, "_LEAST_SLOW", 64)
    batch, channels, pixels = image.batch, image.channels, prod(image.size)
    flags = [f"--iree-hal-dump-executable-files-to={tmp_path}"]
    model = NormalizedByArguments(channels, image.groups).to(type_).eval()
    given = torch.zeros(batch, 8, *image.size, dtype=type_), *torch.zeros(2, channels)
    iree.winograd.compile(
        iree.winograd.import_torch(model, *given), target="cuda:sm_90a", strict=True, flags=flags
    )
    (text,) = (path.read_text() for path in tmp_path.glob("*.ptx"))
    torch.manual_seed(0)
    x = (torch.randn(batch, *image.size, channels) + 3).to(type_)
    weight, bias = torch.randn(2, channels)
    moments, factors, elements = (
        _entry(text, f"winograd_{kind}_") for kind in ("moments", "combine_factors", "elementwise")
    )
    for body in (moments[1], elements[1]):
        assert "ld.global.nc.v4.b32" in body and "ld.global.nc.v4.b16" not in body
    begins = [_least_offset(moments[1], "ld"), _least_offset(elements[1], "st")]
    size = x.numel() * x.itemsize
    memory = np.full(max(begins) + size, 0xFF, np.uint8)
    memory[begins[0] :][:size] = x.view(torch.int16).numpy().ravel().view(np.uint8)
    extents = SummedExtents(batch, pixels, image.groups, channels // image.groups)
    parts = sums_lowering._kernel(extents, Summed.MOMENTS, sums_lowering._NOTHING, OCTET)
    blocks = ceil_div(image.groups, sums_lowering._FEW_GROUPS)
    vectors = ceil_div(x.numel(), OCTET * ELEMENTWISE_THREADS)
    known = [index.known for index in parts.workgroups(Sizes({}))]
    for name, arguments, grid in (
        (moments[0], [memory] * 2, known),
        (factors[0], [memory, weight.numpy(), bias.numpy(), memory], (blocks, 1, batch)),
        (elements[0], [memory] * 2, (vectors, 1, 1)),
    ):
        Kernel.parsed(text, name).run(arguments, product(*(range(each or 0) for each in grid)))
    result = torch.from_numpy(memory[begins[1] :][:size].copy()).view(type_).view(x.shape)
    of_parameters = (each.double().numpy() for each in (weight, bias))
    exact, bound = normalized(x.double().permute(0, 3, 1, 2).numpy(), image.groups, *of_parameters)
    roundoff = torch.finfo(type_).eps / 2
    for step in (lambda *each: each, activated):
        exact, bound = step(exact, bound)
        # f16 has multiples of 2^-24 below 2^-14. The exponential is that of so many digits.
        bound = bound + (roundoff + 2.0**-16) * (np.abs(exact) + bound) + 2.0**-25
    assert (np.abs(result.double().permute(0, 3, 1, 2).numpy() - exact) <= bound).all()


def _entry(text: str, prefix: str) -> tuple[str, str]:
    """The name of a kernel, and its text."""
    (name,) = re.findall(rf"\.entry ({prefix}\w+)\(", text)
    return name, text[text.index(f".entry {name}(") :].partition("\n}")[0]


def _least_offset(body: str, access: str) -> int:
    """In bytes, of what a kernel reads or writes first, from where its buffer begins."""
    return min(int(each or 0) for each in re.findall(rf"{access}\.global\S* [^;]*?\[%rd\d+\+?(\d*)\]", body))


@pytest.mark.parametrize("target", wide(["cuda:sm_80", "hip:gfx942"]))
def test_kernels_compile_for_all_targets(target: str) -> None:
    for image in (LAST, IMAGES["long rows"]):
        compiled = bytes(iree.winograd.compile(image.imported, target=target, strict=True))
        for kernel in (b"winograd_sum", b"winograd_moments", b"winograd_combine_deviations"):
            assert kernel in compiled


def test_sums_that_are_few_are_left_to_iree() -> None:
    image = Image(1, 16, 4, (8, 8))
    assert b"winograd_moments" not in bytes(iree.winograd.compile(image.imported, target="vulkan"))
