"""Normalization of groups by one kernel: on Vulkan, and what its text says for clusters of workgroups."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import iree.winograd
import numpy as np
import numpy.typing as npt
import pytest
import torch
from group_norm_program import (
    UNIT_ROUNDOFF,
    Normalized,
    NormalizedByArguments,
    activated,
    normalized,
)
from half_precision import STORED_ROUNDOFF
from iree.winograd.compiling.program import compile
from iree.winograd.passes.match.normalizations.image_sum import SummedExtents
from iree.winograd.pipelines.gpu.lowerings import group_norm as group_norm_lowering
from iree.winograd.pipelines.gpu.schedules import group_norm
from iree.winograd.pipelines.gpu.schedules.group_norm import (
    GroupNormSchedule,
    group_norm_schedule,
    seconds_of_parts,
)
from iree.winograd.pipelines.gpu.schedules.warp_group_norm import (
    MOST_HELD,
    WarpGroupNormSchedule,
    warp_group_norm_schedules,
)
from ptx_interpreter import Kernel
from ptxas import spilled_bytes
from scheduled_program import AMPERE
from torch import nn
from wide import wide, wide_combinations

Array = npt.NDArray[Any]

ARCHITECTURE = "sm_90a"
CLUSTERS = AMPERE.__class__(1024, 232448, "nvvm.minctasm", ARCHITECTURE, cluster_workgroups=8)


@dataclass(frozen=True)
class Image:
    batch: int
    channels: int
    groups: int
    size: tuple[int, int]

    @property
    def extents(self) -> SummedExtents:
        return SummedExtents(
            self.batch, self.size[0] * self.size[1], self.groups, self.channels // self.groups
        )


IMAGES = {
    "groups of ten channels": Image(2, 40, 4, (20, 20)),
    "groups of quads": Image(1, 64, 8, (21, 19)),
    "single channels": Image(2, 48, 48, (17, 19)),
    "pairs of channels": Image(2, 32, 16, (17, 31)),
}


@pytest.mark.parametrize("name", wide(IMAGES))
def test_normalized_groups_are_those_of_float64(name: str, gpu_target: str, gpu_device: str) -> None:
    image = IMAGES[name]
    torch.manual_seed(0)
    model = Normalized(image.channels, image.groups).eval()
    x = torch.randn(image.batch, image.channels, *image.size) + 3
    imported = iree.winograd.import_torch(model, x)
    compiled = bytes(iree.winograd.compile(imported, target=gpu_target, strict=True))
    assert b"winograd_group_norm" in compiled and b"winograd_moments" not in compiled
    result = np.asarray(iree.winograd.load(compiled, gpu_device)(x.numpy()))
    weight, bias = (each.detach().double().numpy() for each in model.norm.parameters())
    expected, bound = activated(*normalized(x.double().numpy(), image.groups, weight, bias))
    products = np.abs(expected).max() * UNIT_ROUNDOFF * 8
    assert (np.abs(result - expected) <= bound + products).all()


def test_instance_normalization_transposes_nothing(gpu_target: str, gpu_device: str) -> None:
    """By itself torch normalizes a view of channels of all images."""
    torch.manual_seed(0)
    model = Normalized(48, 48).eval()
    weight, bias = model.norm.parameters()
    of_instances = nn.InstanceNorm2d(48, affine=True)
    of_instances.weight, of_instances.bias = weight, bias
    model.norm = of_instances  # type: ignore[assignment]
    x = torch.randn(2, 48, 17, 19) + 3
    compiled = bytes(
        iree.winograd.compile(iree.winograd.import_torch(model, x), target=gpu_target, strict=True)
    )
    assert b"winograd_group_norm_2x323x48x1" in compiled
    result = np.asarray(iree.winograd.load(compiled, gpu_device)(x.numpy()))
    exact = [each.detach().double().numpy() for each in (x, weight, bias)]
    expected, bound = activated(*normalized(exact[0], 48, *exact[1:]))
    products = np.abs(expected).max() * UNIT_ROUNDOFF * 8
    assert (np.abs(result - expected) <= bound + products).all()


class Adapted(nn.Module):
    """Normalized channels that are scaled by others, as diffusion models adapt them to a step, and a sum."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(4, channels)
        self.convolution = nn.Conv2d(channels, channels, 1, bias=False)
        nn.init.dirac_(self.convolution.weight)

    def forward(self, image: torch.Tensor, scale: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        scaled = self.norm(self.convolution(image)) * (1 + scale[:, :, None, None])
        result: torch.Tensor = self.convolution(scaled + self.convolution(other))
        return result


@pytest.mark.wide
def test_what_follows_reads_further_tensors(gpu_target: str, gpu_device: str) -> None:
    generator = np.random.default_rng(0)
    x, other = (generator.standard_normal((2, 32, 20, 20)).astype(np.float32) for _ in range(2))
    scale = generator.standard_normal((2, 32)).astype(np.float32)
    model = Adapted(32).eval()
    imported = iree.winograd.import_torch(model, *map(torch.tensor, (x, scale, other)))
    compiled = bytes(iree.winograd.compile(imported, target=gpu_target, strict=True))
    assert b"winograd_group_norm" in compiled and b"winograd_moments" not in compiled
    result = np.asarray(iree.winograd.load(compiled, gpu_device)(x, scale, other))
    exact, bound = normalized(x.astype(np.float64), 4, np.ones(32), np.zeros(32))
    factors = np.abs(1 + scale.astype(np.float64))[:, :, None, None]
    expected = exact * (1 + scale.astype(np.float64))[:, :, None, None] + other
    rounded = 8 * UNIT_ROUNDOFF * (np.abs(expected) + factors * np.abs(exact) + np.abs(other)).max()
    assert (np.abs(result - expected) <= factors * bound + rounded).all()


def compiled_text(image: Image, type_: torch.dtype, folder: Path) -> tuple[str, str]:
    """The text of the kernels of a program, and the name of that which normalizes."""
    model = NormalizedByArguments(image.channels, image.groups).to(type_).eval()
    inputs = torch.zeros(image.batch, 8, *image.size, dtype=type_), *torch.zeros(2, image.channels)
    flags = [f"--iree-hal-dump-executable-files-to={folder}"]
    compile(
        iree.winograd.import_torch(model, *inputs), target=f"cuda:{ARCHITECTURE}", strict=True, flags=flags
    )
    (text,) = (path.read_text() for path in folder.glob("*.ptx"))
    (name,) = re.findall(r"\.entry (winograd_group_norm_\w+)\(", text)
    return text, name


@pytest.mark.parametrize(
    ("image", "type_", "held"),
    [
        (Image(1, 64, 4, (16, 32)), torch.float32, (2, 3)),
        *wide_combinations(
            [
                (Image(1, 48, 4, (19, 20)), torch.float32, (8, 0)),
                # The last workgroup has fewer rows; rows of threads lack some.
                (Image(2, 40, 4, (21, 20)), torch.float16, (8, 0)),
                (Image(2, 64, 4, (16, 32)), torch.float16, (2, 3)),
                (Image(1, 32, 32, (32, 36)), torch.bfloat16, (8, 0)),
                (Image(2, 48, 6, (25, 32)), torch.float32, (8, 0)),
            ]
        ),
    ],
)
def test_workgroups_of_a_cluster_share_groups(
    image: Image,
    type_: torch.dtype,
    held: tuple[int, int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of an image with a large mean: workgroups of few threads, with few registers and little memory."""
    monkeypatch.setattr(group_norm, "MOST_THREADS", 64)
    monkeypatch.setattr(group_norm, "MOST_HELD", held[0])
    monkeypatch.setattr(group_norm, "MOST_SHARED", held[1])
    monkeypatch.setattr(group_norm_lowering, "warp_group_norm_schedules", lambda *_: ())
    text, name = compiled_text(image, type_, tmp_path)
    itemsize = torch.empty((), dtype=type_).itemsize
    schedule = group_norm_schedule(image.extents, CLUSTERS, itemsize, itemsize)
    assert schedule is not None and schedule.cluster > 1
    assert (schedule.shared > 0) == (held[1] > 0)
    expect_normalized(image, type_, text, name, schedule)


@pytest.mark.parametrize(
    ("image", "type_", "forced"),
    [
        (Image(1, 40, 4, (16, 32)), torch.float16, (2, 2, 2, 160)),
        *wide_combinations(
            [
                (Image(1, 80, 4, (16, 16)), torch.float32, (4, 1, 1, 160)),
                (Image(2, 80, 2, (16, 16)), torch.bfloat16, (8, 1, 4, 160)),
                # 40 warps have parts of each group.
                (Image(1, 32, 2, (32, 40)), torch.float32, (4, 1, 8, 160)),
            ]
        ),
    ],
)
def test_warps_of_a_cluster_share_groups(
    image: Image,
    type_: torch.dtype,
    forced: tuple[int, int, int, int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of an image with a large mean."""
    schedule = WarpGroupNormSchedule(image.extents, *forced)
    monkeypatch.setattr(group_norm_lowering, "seconds_of_parts", lambda *_: 1.0)
    monkeypatch.setattr(group_norm_lowering, "warp_group_norm_schedules", lambda *_: [schedule])
    monkeypatch.setattr(WarpGroupNormSchedule, "seconds", lambda *_: 0.0)
    expect_normalized(image, type_, *compiled_text(image, type_, tmp_path), schedule)


def expect_normalized(
    image: Image,
    type_: torch.dtype,
    text: str,
    name: str,
    schedule: GroupNormSchedule | WarpGroupNormSchedule,
) -> None:
    """That the kernel of that name computes group normalization and SiLU of an image."""
    kernel = Kernel.parsed(text, name)
    torch.manual_seed(0)
    x = (torch.randn(image.batch, *image.size, image.channels) + 20).to(type_)
    weight, bias = torch.randn(2, image.channels).numpy()
    assert schedule.cluster == kernel.cluster
    across, blocks, outer = schedule.grid
    grid = ((i, block, n) for n, block, i in product(range(outer), range(blocks), range(across)))
    # Image and result lie in one buffer of the program, behind other tensors.
    places = [
        _first_offset(text[text.index(f".entry {name}") :], each) // x.itemsize for each in ("ld", "st")
    ]
    both = torch.full((max(places) + x.numel(),), torch.nan, dtype=type_)
    parts = [both[place : place + x.numel()].view(x.shape) for place in places]
    parts[0].copy_(x)
    kernel.run([_bits(both), weight, bias, _bits(both)], grid)
    result = parts[1].double().permute(0, 3, 1, 2).numpy()
    exact = x.double().permute(0, 3, 1, 2).numpy()
    expected, bound = _rounded(
        *normalized(exact, image.groups, weight.astype(np.float64), bias.astype(np.float64)),
        STORED_ROUNDOFF[type_],
    )
    expected, bound = _rounded(*activated(expected, bound), STORED_ROUNDOFF[type_])
    assert (np.abs(result - expected) <= bound).all()


def _first_offset(text: str, instruction: str) -> int:
    """In bytes, of what a kernel reads or writes first, from where its buffer begins: rows follow it."""
    found = re.search(rf"\t{instruction}\.global[^;]*?\[%\w+(?:\+(\d+))?\]", text[: text.index("\n}\n")])
    assert found is not None
    return int(found[1] or 0)


def _bits(tensor: torch.Tensor) -> Array:
    return tensor.numpy() if tensor.dtype == torch.float32 else tensor.view(torch.int16).numpy()


def _rounded(exact: Array, bound: Array, roundoff: float) -> tuple[Array, Array]:
    """With what rounding to half precision adds: f16 has multiples of 2^-24 below 2^-14."""
    return exact, bound + roundoff * (np.abs(exact) + bound) + (2.0**-25 if roundoff else 0.0)


SHAPES = [
    (2, 4096, 32, 10),
    (2, 4096, 32, 30),
    (2, 1024, 32, 20),
    (2, 256, 32, 40),
    (2, 64, 32, 80),
    (1, 289, 7, 12),
    (8, 16384, 64, 1),
    (3, 31, 6, 2),
]
"""Of Stable Diffusion's U-Net, and others."""


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("target", [AMPERE, CLUSTERS], ids=["alone", "clusters"])
def test_each_row_is_that_of_one_thread_and_registers_hold_it(
    shape: tuple[int, int, int, int], target: Any
) -> None:
    extents = SummedExtents(*shape)
    schedule = group_norm_schedule(extents, target, 2, 2)
    if schedule is None:
        # No workgroup has registers for quads of whole groups.
        columns = next(n * extents.inner for n in range(1, 5) if n * extents.inner % 4 == 0)
        held = extents.rows * columns / (4 * group_norm.MOST_THREADS)
        assert held / target.cluster_workgroups > (group_norm.MOST_HELD + group_norm.MOST_SHARED) / 2
        return
    assert schedule.threads <= min(group_norm.MOST_THREADS, target.max_threads)
    assert schedule.cluster <= target.cluster_workgroups
    assert extents.kept % schedule.groups == 0
    rows = [
        first + along + i * schedule.along
        for first in range(0, schedule.cluster * schedule.rows, schedule.rows)
        for i, along in product(range(schedule.held), range(schedule.along))
        if along + i * schedule.along < schedule.rows
    ]
    assert [row for row in sorted(rows) if row < extents.rows] == list(range(extents.rows))
    assert schedule.held - schedule.shared <= group_norm.MOST_HELD
    assert schedule.shared == 0 or schedule.shared_bytes <= target.shared_memory_bytes


@pytest.mark.parametrize("shape", SHAPES)
def test_warps_have_whole_rows_of_groups(shape: tuple[int, int, int, int]) -> None:
    extents = SummedExtents(*shape)
    found = list(warp_group_norm_schedules(extents, CLUSTERS, 2, 2))
    is_large = shape in {(2, 4096, 32, 30)}
    assert bool(found) == (shape[1] % 32 == 0 and shape[3] % 2 == 0 and not is_large)
    for each in found:
        assert each.groups * each.held * each.along * each.cluster * (extents.kept // each.groups) == (
            extents.rows * extents.kept
        )
        assert each.group_threads == each.across * each.along and each.group_threads % 32 == 0
        assert each.held * each.width <= MOST_HELD
        assert each.threads <= each.resident <= 1024


def test_large_images_are_summed_in_parts() -> None:
    """No cluster holds a group of 1 x 512 x 512 x 128 pixels, and one multiprocessor would read for long."""
    assert group_norm_schedule(SummedExtents(1, 1 << 18, 32, 4), CLUSTERS, 4, 4) is None
    extents = SummedExtents(1, 64, 1, 128)
    found = group_norm_schedule(extents, AMPERE, 4, 4)
    assert found is not None and found.seconds(4, 4) < seconds_of_parts(extents, 4, 4)


@pytest.mark.parametrize(
    ("image", "type_"),
    [
        # With as much of it in shared memory.
        (Image(8, 64, 64, (128, 128)), torch.float32),
        *wide_combinations((Image(2, 960, 32, (64, 64)), each) for each in (torch.float16, torch.float32)),
    ],
)
def test_registers_hold_the_image(
    image: Image, type_: torch.dtype, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether or not three kernels take less time."""
    monkeypatch.setattr(group_norm_lowering, "seconds_of_parts", lambda *_: 1.0)
    _, name = compiled_text(image, type_, tmp_path)
    held = 4 * 4 * group_norm.MOST_HELD
    assert spilled_bytes(tmp_path, ARCHITECTURE)[name] < held / 4


@pytest.mark.parametrize("target", wide(["cuda:sm_80", "hip:gfx942"]))
def test_kernels_compile_for_all_targets(target: str) -> None:
    model = NormalizedByArguments(40, 4).eval()
    imported = iree.winograd.import_torch(model, torch.zeros(2, 8, 20, 20), *torch.zeros(2, 40))
    assert b"winograd_group_norm" in bytes(iree.winograd.compile(imported, target=target, strict=True))
