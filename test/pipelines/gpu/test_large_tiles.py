"""Tiles of which a thread transforms two channels for lack of registers, as on AMD's GPUs."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from iree.winograd.pipelines.gpu.schedules.gemm import GemmSchedule
from scheduled_program import ScheduledProgram
from wide import wide, wide_combinations

BLOCKS = GemmSchedule(32, 32, 16, 4, 4)
SQUARE = ScheduledProgram(
    (13, 14), 16, 24, (3, 3), (6, 6), (3, 3), batch=2, low=(1, 1), high=(1, 1), schedule=BLOCKS
)
PROGRAMS = [
    SQUARE,
    # Channels that are no quads, or no pairs.
    replace(SQUARE, channels=18, outputs=19),
    replace(SQUARE, channels=24, outputs=24, groups=3),
    replace(SQUARE, schedule=replace(BLOCKS, reduction_parts=2), channels=160),
]


@pytest.mark.parametrize(
    ("program", "constant_filter"),
    [
        *wide_combinations([(PROGRAMS[0], False), *((program, True) for program in PROGRAMS[1:])]),
    ],
    ids=str,
)
def test_agrees_with_float64(
    program: ScheduledProgram, constant_filter: bool, gpu_target: str, gpu_device: str
) -> None:
    """For RDNA, by Mesa's driver for CPUs; GPUs of others have registers for four channels."""
    target = "vulkan:rdna3" if gpu_target == "vulkan" else gpu_target
    replace(program, constant_filter=constant_filter).check(target=target, device=gpu_device)


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
