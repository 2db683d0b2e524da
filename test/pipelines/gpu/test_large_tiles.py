"""Tiles of which a thread transforms two channels for lack of registers, as on AMD's GPUs."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from convolution_program import check_together
from iree.winograd.pipelines.gpu.schedules.gemm import GemmSchedule
from scheduled_program import ScheduledProgram
from wide import wide

BLOCKS = GemmSchedule(32, 32, 16, 4, 4)
SQUARE = ScheduledProgram(
    (13, 14), 16, 24, (3, 3), (6, 6), (3, 3), batch=2, low=(1, 1), high=(1, 1), schedule=BLOCKS
)
PROGRAMS = [
    # Channels that are no quads, or no pairs, of filters known only at run time; a reduction that is shared.
    replace(
        SQUARE, channels=66, outputs=19, constant_filter=False, schedule=replace(BLOCKS, reduction_parts=2)
    ),
    replace(SQUARE, channels=24, outputs=24, groups=3),
]


@pytest.mark.wide
def test_agrees_with_float64(gpu_target: str, gpu_device: str) -> None:
    """For RDNA, by Mesa's driver for CPUs; GPUs of others have registers for four channels."""
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
