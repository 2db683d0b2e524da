"""Tiles of which a thread transforms two channels for lack of registers."""

from __future__ import annotations

import re
from dataclasses import replace
from math import prod
from pathlib import Path

import pytest
from checked_programs import check_together
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem, WeightGradientProblem
from iree.winograd.pipelines.gpu.backend import GpuBackend
from iree.winograd.pipelines.gpu.choice.cost_model import INPUT_ELEMENT_LATENCY
from iree.winograd.pipelines.gpu.choice.search_space import SPILLED_FACTOR
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.gpu.schedules.gemm import GemmSchedule
from iree.winograd.pipelines.problems.executable_target import ExecutableTarget
from iree.winograd.pipelines.selection.prediction import predict
from ptxas import spilled_bytes
from scheduled_program import ScheduledProgram
from wide import wide

BLOCKS = GemmSchedule(32, 32, 16, 4, 4)
SQUARE = ScheduledProgram(
    (13, 14), 16, 24, (3, 3), (6, 6), (3, 3), batch=2, low=(1, 1), high=(1, 1), schedule=BLOCKS
)
CUBE = ScheduledProgram(
    (5, 6, 7), 16, 24, (3,) * 3, (4, 2, 3), (3,) * 3, low=(1,) * 3, high=(1,) * 3, schedule=BLOCKS
)
PROGRAMS = [
    CUBE,
    # Channels that are no quads, or no pairs, of filters known only at run time; a reduction that is shared.
    replace(
        SQUARE, channels=66, outputs=19, constant_filter=False, schedule=replace(BLOCKS, reduction_parts=2)
    ),
    replace(SQUARE, channels=24, outputs=24, groups=3),
]


@pytest.mark.wide
def test_agrees_with_float64(gpu_target: str, gpu_device: str) -> None:
    """For RDNA, by Mesa's driver for CPUs; NVIDIA's GPUs have registers for four channels of squares."""
    target = "vulkan:rdna3" if gpu_target == "vulkan" else gpu_target
    check_together(PROGRAMS, target=target, devices=[gpu_device])


@pytest.mark.parametrize("target", ["gfx942", *wide(["gfx1201"])])
def test_transforms_spill_no_registers_and_leave_some_for_a_second_warp(target: str, tmp_path: Path) -> None:
    schedule = GemmSchedule(64, 64, 16, ordered_steps=None if target.startswith("gfx9") else 1)
    text = replace(SQUARE, channels=64, outputs=64, schedule=schedule).assembly(target, tmp_path)
    assert set(re.findall(r"gpr_spill_count: (\d+)", text)) == {"0"}
    names = re.findall(r"^ {4}\.name:\s+winograd_(\w+?)_", text, re.MULTILINE)
    registers = dict(
        zip(names, map(int, re.findall(r"^ {4}\.vgpr_count:\s+(\d+)", text, re.MULTILINE)), strict=True)
    )
    assert max(registers["input"], registers["output"]) <= 256


@pytest.mark.wide
def test_transforms_of_cubes_spill_nothing_on_nvidias(tmp_path: Path) -> None:
    """An H200 took 93 us where four channels of such a tile were spilled, and 14 for its products."""
    CUBE.kernels("sm_90a", tmp_path)
    assert set(spilled_bytes(tmp_path, "sm_90a").values()) == {0}


def test_tiles_of_cubes_are_as_large_as_there_are_registers_for() -> None:
    target = GpuTarget.of(ExecutableTarget("cuda", "", 'arch = "sm_90a"'))
    problem = ConvolutionProblem(1, (16, 64, 48), (1,) * 3, (1,) * 3, (3,) * 3, (1,) * 3, (1,) * 3, 1, 16, 32)
    for each in predict(problem, GpuBackend(target).search_space()):
        algorithm, schedule = each.implementation.algorithm, each.implementation.schedule
        elements = prod(m + p - 1 for m, p in zip(algorithm.output_tile, algorithm.part_size, strict=True))
        is_whole = (
            target.keeps_tile(elements) if schedule.matrix_products else target.transforms_tile(elements)
        )
        least = SPILLED_FACTOR * INPUT_ELEMENT_LATENCY * elements
        assert is_whole or each.stage_seconds["input"] > least


def test_tiles_of_gradients_are_of_four_channels() -> None:
    target = GpuTarget.of(ExecutableTarget("cuda", "", 'arch = "sm_90a"'))
    problem = WeightGradientProblem(
        2, (8, 28, 28), (1,) * 3, (1,) * 3, (3,) * 3, (1,) * 3, (1,) * 3, 1, 128, 128
    )
    for each in predict(problem, GpuBackend(target).search_space()):
        algorithm = each.implementation.algorithm
        elements = prod(m + p - 1 for m, p in zip(algorithm.output_tile, algorithm.part_size, strict=True))
        least = SPILLED_FACTOR * INPUT_ELEMENT_LATENCY * elements
        assert target.transforms_quads(elements) or each.stage_seconds["images"] > least
