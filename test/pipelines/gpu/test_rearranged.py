"""Images in another order: rotations, windows and patches, copied at once or read where they were."""

from __future__ import annotations

import re
from pathlib import Path

import iree.winograd
import numpy as np
import pytest
import torch
from agreement import expect_within
from iree.winograd.compiling.program import compile
from iree.winograd.pipelines.gpu import tensor_kernels
from iree.winograd.pipelines.gpu.kernels.images import elementwise
from orders import patches, rotated, whole
from ptx_interpreter import Kernel
from torch import nn
from wide import wide, wide_combinations

UNIT_ROUNDOFF = 2.0**-24


class Orders(nn.Module):
    """Orders of images beside a convolution, for which there are kernels."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 1)

    def forward(self, image: torch.Tensor, x: torch.Tensor, parts: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Pixels by their place in patches, an image that is rotated, a sum with one that was divided."""
        _, height, width, _ = x.shape
        total = torch.relu(x - rotated(whole(parts, height, width), 1))
        return patches(x), rotated(x, -2), total, self.convolution(image)


def arguments(channels: int) -> list[torch.Tensor]:
    generator = np.random.default_rng(0)
    shapes = (1, 3, 8, 8), (2, 12, 8, channels), (12, 16, channels)
    return [torch.from_numpy(generator.standard_normal(shape, np.float32)) for shape in shapes]


def check(target: str, device: str, channels: int) -> bytes:
    """Checks the results, which are exact or rounded once; gives the program."""
    model, given = Orders().eval(), arguments(channels)
    program = bytes(compile(iree.winograd.import_torch(model, *given), target=target, strict=True))
    *results, _ = iree.winograd.load(program, device)(*(each.numpy() for each in given))
    *expected, _ = model(*given)
    for result, exact in zip(results, expected, strict=True):
        np.testing.assert_array_equal(np.asarray(result), exact.numpy())
    return program


def test_orders_are_those_of_their_definition(gpu_target: str, gpu_device: str) -> None:
    program = check(gpu_target, gpu_device, 20)
    # Both copies are kernels, and the sum reads windows where they are.
    for name in (b"rearranged_2x4x24x20", b"rearranged_2x12x8x20", b"elementwise_2x12x8x20"):
        assert b"winograd_" + name in program
    assert b"slow_memcpy" not in program


class Enlarged(nn.Module):
    """Pixels that are repeated, three times along rows, between filters that read no channel but one."""

    def __init__(self) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(nn.Conv2d(20, 20, 1, bias=False) for _ in range(2))
        for convolution in self.convolutions:
            nn.init.dirac_(convolution.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, last = self.convolutions
        result: torch.Tensor = last(nn.functional.interpolate(first(x), scale_factor=(2, 3)))
        return result


def test_repeated_pixels_are_those_of_the_image(
    gpu_target: str, gpu_device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensor_kernels, "_LEAST_SLOW", 64)
    model = Enlarged().eval()
    x = torch.randint(-99, 99, (2, 20, 5, 7)).float()
    program = bytes(compile(iree.winograd.import_torch(model, x), target=gpu_target, strict=True))
    assert b"winograd_rearranged_2x5x2x7x3x20" in program
    result = iree.winograd.load(program, gpu_device)(x.numpy())
    exact = model.double()(x.double()).detach().numpy()
    # Products are exact, but matrix units are given what they truncate of sums on average: no more than f32's
    # sums of so many products err, in either convolution, and much less than another pixel differs.
    expect_within(result, exact, 2 * x.shape[1] * UNIT_ROUNDOFF * np.abs(exact))


@pytest.mark.parametrize("channels", wide([6]))
def test_quads_that_are_not_kept_together_are_left(channels: int, gpu_target: str, gpu_device: str) -> None:
    program = check(gpu_target, gpu_device, channels)
    # Rows are rotated by a kernel, as they are whole quads.
    assert b"rearranged_2x4x24x6" not in program and b"rearranged_2x12x8x6" in program


@pytest.mark.parametrize(("channels", "width"), [(24, 8), *wide_combinations([(20, 4)])])
def test_octets_of_half_precision_are_stored_where_they_are_kept_together(
    channels: int, width: int, tmp_path: Path
) -> None:
    """Through CUDA, where the kernel's text is run here: of an argument in f32, and quads of 20 channels."""
    model, given = Orders().half().eval(), [each.half() for each in arguments(channels)]
    flags = [f"--iree-hal-dump-executable-files-to={tmp_path}"]
    compile(iree.winograd.import_torch(model, *given), target="cuda:sm_90a", strict=True, flags=flags)
    (text,) = (path.read_text() for path in tmp_path.glob("*.ptx"))
    x = given[1]
    orders = {f"2x12x8x{channels}": rotated(x, -2), f"2x4x24x{channels}": patches(x)}
    found = re.findall(r"\.entry winograd_elementwise_(\w+)\(", text)
    copied = []
    for kernel in found:
        name = f"winograd_elementwise_{kernel}"
        body = text[text.index(f".entry {name}(") :].partition("\n}")[0]
        if f"{name}_param_2" in body:
            continue
        expected = orders[kernel.partition("_")[0]]
        assert len(re.findall(r"ld\.global\S*\.v4\.b32", body)) == width // 4
        # Results lie behind each other.
        (begin,) = (int(each or 0) // 2 for each in re.findall(r"st\.global\S*\s+\[%rd\d+\+?(\d*)\]", body))
        memory = np.zeros(begin + x.numel(), np.int16)
        workgroups = -(-x.numel() // (width * elementwise.ELEMENTWISE_THREADS))
        grid = ((i, 0, 0) for i in range(workgroups))
        Kernel.parsed(text, name).run([x.float().numpy(), memory], grid)
        result = memory[begin:].reshape(expected.shape)
        np.testing.assert_array_equal(result, expected.contiguous().view(torch.int16).numpy())
        copied.append(kernel)
    assert len(copied) == 2


@pytest.mark.parametrize("target", wide(["cuda:sm_90a", "hip:gfx942"]))
def test_orders_compile_for_all_targets(target: str) -> None:
    imported = iree.winograd.import_torch(Orders().eval(), *arguments(20))
    assert b"winograd_rearranged" in bytes(compile(imported, target=target, strict=True))
