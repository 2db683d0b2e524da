"""Filters that kernels for NVIDIA's GPUs have brought to the second cache before they load any."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from iree.winograd.pipelines.gpu.schedules.columns import GpuDepthwiseSchedule, GroupedSchedule
from iree.winograd.pipelines.gpu.schedules.gemm import GemmSchedule
from scheduled_program import ScheduledProgram
from wide import wide_combinations

PARTS = GemmSchedule(32, 32, 16, 4, 4, reduction_parts=4)
POINTWISE = ScheduledProgram((8, 8), 512, 64, (1, 1), (1, 1), (1, 1), schedule=PARTS)
TAPS = ScheduledProgram((9, 9), 64, 64, (3, 3), (1, 1), (1, 1), low=(1, 1), high=(1, 1))
DEPTHWISE = replace(TAPS, groups=64, schedule=GpuDepthwiseSchedule())
GROUPED = replace(TAPS, groups=8, schedule=GroupedSchedule())


@pytest.mark.parametrize(
    ("program", "lines"),
    [
        # A part of 128 positions of 32 columns; 9 taps of 16 quads; those of 8 channels.
        (POINTWISE, 128),
        (replace(DEPTHWISE, constant_filter=False), 0),
        *wide_combinations([(DEPTHWISE, 18), (GROUPED, 144), (replace(POINTWISE, batch=64), 0)]),
    ],
)
def test_all_lines_are_asked_for_before_any_load(
    program: ScheduledProgram, lines: int, tmp_path: Path
) -> None:
    schedule = program.schedule
    (kernel,) = (each for each in program.kernels("sm_90a", tmp_path) if "fma.rn.f32" in each)
    before, _, _ = kernel.partition("ld.global")
    assert kernel.count("prefetch.global.L2") == before.count("prefetch.global.L2")
    assert before.count("prefetch.global.L2") == -(-lines // schedule.threads)


def test_other_gpus_are_asked_for_none(tmp_path: Path) -> None:
    assert not any("prefetch" in text for text in DEPTHWISE.sources("vulkan", tmp_path))
