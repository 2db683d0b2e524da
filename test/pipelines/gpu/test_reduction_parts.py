"""Products whose reduction several workgroups share, of 16 x 8 a thread, and of one warp, against float64."""

from __future__ import annotations

from dataclasses import replace

import pytest
from checked_programs import check_together
from iree.winograd.pipelines.gpu.schedules.gemm import GemmSchedule
from scheduled_program import ScheduledProgram
from wide import batches

PARTS = GemmSchedule(32, 32, 16, 4, 4, reduction_parts=4)
LARGE = GemmSchedule(128, 128, 8, thread_rows=16)
ONE_WARP = GemmSchedule(64, 32, 16, alternating_rows=2)
PROGRAMS = [
    # Output tile 1: a matrix product of few rows, padding, strides and groups; others; a dynamic batch.
    ScheduledProgram((5,), 200, 70, (1,), (1,), (1,), schedule=PARTS),
    ScheduledProgram(
        (9, 8), 18, 17, (3, 3), (1, 1), (1, 1), strides=(2, 1), low=(1, 1), high=(1, 1), schedule=PARTS
    ),
    ScheduledProgram((6, 6), 80, 24, (3, 3), (1, 1), (1, 1), groups=2, schedule=PARTS),
    ScheduledProgram(
        (7, 7), 96, 40, (3, 3), (2, 2), (3, 3), batch=2, low=(1, 1), high=(1, 1), schedule=PARTS
    ),
    ScheduledProgram((7, 7), 16, 8, (3, 3), (2, 2), (3, 3), batch=3, dynamic_batch=True, schedule=PARTS),
    ScheduledProgram((7, 7), 48, 16, (3, 3), (2, 2), (3, 3), groups=2, schedule=PARTS),
    ScheduledProgram((9, 8), 18, 140, (3, 3), (2, 2), (3, 3), batch=11, schedule=LARGE),
    ScheduledProgram((9, 8), 34, 70, (3, 3), (2, 2), (3, 3), batch=3, schedule=ONE_WARP),
]


SAMPLE = [PROGRAMS[0], PROGRAMS[5]]
KNOWN_LATER = [replace(program, constant_filter=False) for program in (PROGRAMS[0], PROGRAMS[5])]


@pytest.mark.parametrize("programs", batches([*PROGRAMS, *KNOWN_LATER], SAMPLE))
def test_agrees_with_float64(programs: list[ScheduledProgram], gpu_target: str, gpu_device: str) -> None:
    check_together(programs, target=gpu_target, devices=[gpu_device])
