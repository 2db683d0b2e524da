"""Tensors of sizes known only at run time share memory, as those of sizes known at compile time do."""

from __future__ import annotations

import copy
import subprocess
from itertools import pairwise
from math import prod
from pathlib import Path

import iree.winograd as winograd
import numpy as np
import pytest
import torch
from iree.winograd.command_line.tool_directory import TOOL_DIRECTORY
from iree.winograd.pipelines.on_program.own_results import POOL_BYTES
from iree.winograd.targets import target_flags
from torch import nn
from torch.nn.functional import interpolate, max_pool2d
from warm_python import driver_environment
from wide import wide

SIZES = [(7, 7), (7, 61), (37, 8), (11, 9), (31, 29), (64, 48)]
"""Two rows and two columns of what is pooled, fewer than a tile has, primes, and the example's."""
UNIT_ROUNDOFF = 2.0**-24


class Levels(nn.Module):
    """Tensors of many sizes, few of which are needed at a time."""

    def __init__(self) -> None:
        super().__init__()
        filters = (3, 8, 12, 20, 8)
        self.layers = nn.ModuleList(
            nn.Conv2d(*each, 3, stride=1 + (number == 0), padding=1)
            for number, each in enumerate(pairwise(filters))
        )

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        first, second, third, last = self.layers
        large = torch.relu(first(image))
        small = torch.relu(third(torch.relu(second(max_pool2d(large, 2)))))
        return large + interpolate(torch.relu(last(small)), size=large.shape[2:])


@pytest.fixture(scope="module")
def model() -> Levels:
    torch.manual_seed(0)
    return Levels().eval()


@pytest.fixture(scope="module")
def imported(model: Levels) -> winograd.ImportedModel:
    sizes = {2 + number: torch.export.Dim(f"size_{number}", min=7) for number in range(2)}
    example = torch.zeros(1, 3, *SIZES[-1])
    return winograd.import_torch(torch.export.export(model, (example,), dynamic_shapes=(sizes,)))


@pytest.mark.parametrize("threads", [1, 4])
def test_tensors_share_memory(imported: winograd.ImportedModel, tmp_path: Path, threads: int) -> None:
    """Also those of kernels that wait for each other."""
    source = tmp_path / "levels.mlirbc"
    imported.save(source)
    command = [TOOL_DIRECTORY / "iree-compile", source, *target_flags("cpu:haswell")]
    command += ["--iree-enable-winograd", f"--iree-winograd-threads={threads}"]
    command += ["--compile-to=executable-sources"]
    program = subprocess.run(
        command, env=driver_environment(), capture_output=True, text=True, check=True
    ).stdout
    assert "arith.maxui" in program


@pytest.mark.parametrize("threads", [4, *wide([1])])
def test_results_are_those_of_float64(model: Levels, imported: winograd.ImportedModel, threads: int) -> None:
    program = winograd.load(winograd.compile(imported, threads=threads, strict=True), threads=threads)
    exact = copy.deepcopy(model).double()
    products = sum(prod(each.shape[1:]) + 1 for each in model.parameters() if each.ndim > 1)
    for size in SIZES:
        image = torch.randn(1, 3, *size)
        with torch.no_grad():
            expected = exact(image.double()).numpy()
        result = np.asarray(program(image.numpy()))
        assert result.shape == expected.shape
        # Of sums of products that are added one after the other.
        assert np.abs(result - expected).max() <= products * UNIT_ROUNDOFF * np.abs(expected).max(), size


def test_memory_beyond_the_pool_is_kept_once_for_each_power_of_two(imported: winograd.ImportedModel) -> None:
    """What the device allocates for images of three sizes is one block, and their results."""
    program = winograd.load(winograd.compile(imported, threads=2, strict=True), threads=2)
    allocator = program.main.device.hal.allocator

    def allocated(size: tuple[int, int]) -> int:
        before = allocator.statistics["device_bytes_allocated"]
        program(np.zeros((1, 3, *size), np.float32))
        return int(allocator.statistics["device_bytes_allocated"]) - before

    # Two images of eight channels, as large as the result, and smaller ones lie between its kernels.
    first, *others = [allocated((3000, columns)) for columns in (3000, 2990, 2980)]
    results = [4 * 8 * 1500 * columns // 2 for columns in (3000, 2990, 2980)]
    assert [first - 4 * POOL_BYTES, *others] == results
