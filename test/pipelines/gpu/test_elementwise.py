"""Images that are computed elementwise by a kernel: scaled and shifted in both layouts, and added."""

from __future__ import annotations

import iree.winograd
import numpy as np
import numpy.typing as npt
import pytest
import torch
from iree.winograd.compiling.program import compile
from iree.winograd.pipelines.gpu import tensor_kernels
from iree.winograd.pipelines.gpu.kernels.images import elementwise
from torch import nn
from wide import wide

Array = npt.NDArray[np.float32]
Exact = npt.NDArray[np.float64]

UNIT_ROUNDOFF = 2.0**-24
ROUNDOFFS = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}


class Spread(nn.Module):
    """SiLU of channels that are scaled and shifted, beside a convolution, for which there are kernels."""

    def __init__(self, channels: int, rank: int, *, channels_last: bool) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 1)
        self.index = (slice(None), *[None] * rank) if channels_last else (..., *[None] * rank)

    def forward(
        self, image: torch.Tensor, x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        scaled = nn.functional.silu(x * scale[self.index] + shift[self.index])
        return scaled, x + x * scale[self.index], self.convolution(image)


def bounded(x: Array, scale: Array, shift: Array) -> tuple[tuple[Exact, Exact], tuple[Exact, Exact]]:
    """Both results in float64, and bounds of their errors in float32."""
    u, x64, scale64 = UNIT_ROUNDOFF, x.astype(np.float64), scale.astype(np.float64)
    product = x64 * scale64
    added = product + shift
    of_added = u * (np.abs(product) + np.abs(added)) * 1.01
    result = added / (1 + np.exp(-added))
    # Vulkan's exponential is within 3 + 2|x| units of the last place, its quotient within 2.5, which are two
    # roundings each; the slope is at most 1.1.
    roundings = 2 * (3 + 2 * np.abs(added)) + 2 * 2.5 + 2
    of_result = 1.1 * of_added + 1.01 * u * roundings * np.abs(result)
    total = x64 + product
    return (result, of_result), (total, 1.01 * u * (np.abs(product) + np.abs(total)))


CASES = [
    # Images, channels, size, and whether channels come last.
    (2, 12, (33, 40), True),
    *wide([(2, 24, (17, 20), False), (1, 7, (6, 34), False), (3, 40, (3, 5, 8), True)]),
]


def run(
    case: tuple[int, int, tuple[int, ...], bool], target: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> bytes:
    """Checks the results of a program whose images are large enough for the kernel; gives the program."""
    batch, channels, size, last = case
    monkeypatch.setattr(tensor_kernels, "_LEAST_SLOW", 64)
    generator = np.random.default_rng(0)
    x = generator.standard_normal((batch, *size, channels) if last else (batch, channels, *size), np.float32)
    scale, shift = generator.standard_normal((2, batch, channels), np.float32)
    image = generator.standard_normal((1, 3, 8, 8), np.float32)
    arguments = (image, x, 3 * scale, shift)
    model = Spread(channels, len(size), channels_last=last).eval()
    imported = iree.winograd.import_torch(model, *map(torch.from_numpy, arguments))
    program = bytes(compile(imported, target=target, strict=True))
    *results, _ = iree.winograd.load(program, device)(*arguments)
    index = model.index if last else (..., *[None] * len(size))
    for result, (expected, bound) in zip(results, bounded(x, (3 * scale)[index], shift[index]), strict=True):
        assert (np.abs(np.asarray(result) - expected) <= bound).all()
    return program


@pytest.mark.parametrize("case", CASES, ids=str)
def test_scaled_images_are_those_of_float64(
    case: tuple[int, int, tuple[int, ...], bool],
    gpu_target: str,
    gpu_device: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = run(case, gpu_target, gpu_device, monkeypatch)
    extents = "x".join(map(str, (case[0], *case[2], case[1]) if case[3] else case[:2] + case[2]))
    # Both results are, each by a kernel of its own.
    assert f"winograd_elementwise_{extents}".encode() in program


@pytest.mark.parametrize("case", wide([(1, 30, (8, 8), True)]), ids=str)
def test_what_quads_do_not_read_is_left(
    case: tuple[int, int, tuple[int, ...], bool],
    gpu_target: str,
    gpu_device: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert b"winograd_elementwise" not in run(case, gpu_target, gpu_device, monkeypatch)


class Normalized(nn.Module):
    """A sum of two images, normalized by constants, and its difference from one, each multiplied by filters.

    One of them is a part of each row of a larger image.
    """

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.convolutions = nn.ModuleList(nn.Conv2d(12, 3, 1) for _ in range(2))
        self.scale, self.shift = torch.randn((2, 12, 1, 1), generator=generator)
        for convolution in self.convolutions:
            nn.init.zeros_(convolution.weight)

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
        normalized = torch.relu((a + b[..., 4:-4]) * self.scale + self.shift)
        total = torch.relu(normalized - a)
        first, second = (each(x) for each, x in zip(self.convolutions, (normalized, total), strict=True))
        return normalized, total, first, second


@pytest.mark.parametrize("size", [(9, 12), *wide([(64, 64)])], ids=str)
def test_computed_images_are_those_of_float64(
    size: tuple[int, int], gpu_target: str, gpu_device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for least in ("_LEAST_SLOW", "_LEAST_COMPUTED"):
        monkeypatch.setattr(tensor_kernels, least, 64)
    # Threads have several quads each, the last ones fewer.
    monkeypatch.setattr(elementwise, "_MANY_THREADS", 64)
    generator = np.random.default_rng(0)
    a = generator.standard_normal((3, 12, *size), np.float32)
    b = generator.standard_normal((3, 12, size[0], size[1] + 8), np.float32)
    model = Normalized().eval()
    imported = iree.winograd.import_torch(model, *map(torch.from_numpy, (a, b)))
    program = bytes(compile(imported, target=gpu_target, strict=True))
    # Both are, each by a kernel of its own.
    name = f"winograd_elementwise_3x12x{size[0]}x{size[1]}".encode()
    assert name in program and name + b"_1" in program
    normalized, total, *_ = map(np.asarray, iree.winograd.load(program, gpu_device)(a, b))
    summed, scale, shift = (np.asarray(each, np.float64) for each in (a, model.scale, model.shift))
    summed = summed + b[..., 4:-4]
    expected = np.maximum(summed * scale + shift, 0)
    magnitude = 2 * np.abs(summed * scale) + np.abs(summed * scale + shift)
    bound = 1.01 * UNIT_ROUNDOFF * magnitude
    assert (np.abs(normalized - expected) <= bound).all()
    difference = expected - a
    of_total = bound + 1.01 * UNIT_ROUNDOFF * (np.abs(difference) + bound)
    assert (np.abs(total - np.maximum(difference, 0)) <= of_total).all()


@pytest.mark.parametrize("target", wide(["cuda:sm_80", "hip:gfx942"]))
def test_group_normalization_ends_with_the_kernel(target: str) -> None:
    layers = (nn.Conv2d(4, 64, 1), nn.GroupNorm(8, 64), nn.SiLU(), nn.Conv2d(64, 4, 1))
    imported = iree.winograd.import_torch(nn.Sequential(*layers).eval(), torch.zeros(1, 4, 256, 256))
    program = bytes(compile(imported, target=target, strict=True))
    assert b"winograd_elementwise_1x256x256x64" in program


class Gated(nn.Module):
    """Squeeze and excitation: channels of an image are multiplied by functions of their means."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(4, 24, 3, padding=1), nn.Conv2d(24, 8, 1)
        self.squeeze, self.excite = nn.Conv2d(24, 8, 1), nn.Conv2d(8, 24, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        features = torch.relu(self.first(image))
        gates = self.excite(torch.relu(self.squeeze(features.mean((2, 3), keepdim=True))))
        result: torch.Tensor = self.last(features * torch.sigmoid(gates))
        return result


@pytest.mark.parametrize("type_", [torch.float32, *wide([torch.float16, torch.bfloat16])], ids=str)
def test_gates_images_of_any_size(type_: torch.dtype, gpu_target: str, gpu_device: str) -> None:
    """Means are rounded once, in half precision, whose images IREE gates elsewhere than on CUDA."""
    torch.manual_seed(0)
    model = Gated().eval().to(type_)
    sizes = {2 + d: torch.export.Dim(f"size_{d}") for d in range(2)}
    exported = torch.export.export(model, (torch.zeros(1, 4, 9, 8, dtype=type_),), dynamic_shapes=(sizes,))
    compiled = iree.winograd.compile(iree.winograd.import_torch(exported), target=gpu_target, strict=True)
    if type_ == torch.float32 or gpu_target.startswith("cuda"):
        assert b"winograd_elementwise_anyx24" in compiled and b"winograd_row_sums_anyx24" in compiled
        assert b"main_dispatch" not in compiled
    program = iree.winograd.load(compiled, gpu_device)
    images = [torch.randn(1, 4, *size).to(type_) for size in [(9, 8), (1, 7), (13, 1), (31, 37)]]
    results = [program(image).double().numpy() for image in images]
    model.double()
    # Eight layers, means and gates one behind the other are stored.
    stored = 8 * ROUNDOFFS.get(type_, 0.0)
    weights = [each.weight.abs().sum((1, 2, 3)).max().item() for each in (model.first, model.last)]
    for image, result in zip(images, results, strict=True):
        expected = model(image.double()).detach().numpy()
        # A gate is below 1, and changes by a quarter of what its argument does. A mean's sums are of rows and
        # of columns.
        largest = (image.abs().max().item() * weights[0] + 1) * weights[1] + 1
        roundings = sum(image.shape[2:]) + 4 * 9 + 2 * 24 + 8 + 16
        excited = 1 + np.prod(
            [each.weight.abs().sum((1, 2, 3)).max().item() for each in (model.squeeze, model.excite)]
        )
        assert np.abs(result - expected).max() <= (UNIT_ROUNDOFF * roundings + stored) * largest * excited
