"""Images that are scaled and shifted by what is computed at run time, by a kernel, in both layouts."""

from __future__ import annotations

import iree.winograd
import numpy as np
import numpy.typing as npt
import pytest
import torch
from iree.winograd.compiling.program import compile
from iree.winograd.pipelines.gpu import tensor_kernels
from torch import nn
from wide import wide

Array = npt.NDArray[np.float32]
Exact = npt.NDArray[np.float64]

UNIT_ROUNDOFF = 2.0**-24


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
    (2, 24, (17, 20), False),
    (2, 12, (33, 40), True),
    *wide([(1, 7, (6, 34), False), (3, 40, (3, 5, 8), True)]),
]


def run(
    case: tuple[int, int, tuple[int, ...], bool], target: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> bytes:
    """Checks the results of a program whose images are large enough for the kernel; gives the program."""
    batch, channels, size, last = case
    monkeypatch.setattr(tensor_kernels, "_LEAST_SPREAD", 64)
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


@pytest.mark.parametrize("target", wide(["cuda:sm_80", "hip:gfx942"]))
def test_group_normalization_ends_with_the_kernel(target: str) -> None:
    layers = (nn.Conv2d(4, 64, 1), nn.GroupNorm(8, 64), nn.SiLU(), nn.Conv2d(64, 4, 1))
    imported = iree.winograd.import_torch(nn.Sequential(*layers).eval(), torch.zeros(1, 4, 256, 256))
    program = bytes(compile(imported, target=target, strict=True))
    assert b"winograd_elementwise_1x256x256x64" in program
