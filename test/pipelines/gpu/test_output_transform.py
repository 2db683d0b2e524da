"""Output transforms that add an image to their results."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from checked_programs import check_together
from convolution_program import Program
from iree.winograd.pipelines.gpu.schedules.gemm import GemmSchedule
from scheduled_program import ScheduledProgram
from wide import wide, wide_combinations

PARTS = GemmSchedule(32, 32, 16)


def _residual(m: int) -> Program:
    return ScheduledProgram(
        (13, 13), 8, 8, (3, 3), (m, m), (3, 3), low=(1, 1), high=(1, 1), adds_image=True, schedule=PARTS
    )


@pytest.mark.parametrize("programs", [[_residual(4)], *wide([[_residual(6)]])])
def test_agrees_with_float64(programs: list[Program], gpu_target: str, gpu_device: str) -> None:
    """By quads of channels, and by halves of them where tiles are large."""
    check_together(programs, target=gpu_target, devices=[gpu_device])


@pytest.mark.parametrize(("m", "groups"), [(4, 1), *wide_combinations([(6, 2)])])
def test_the_image_is_loaded_ahead_of_stores(m: int, groups: int, tmp_path: Path) -> None:
    """No load of a tile, of up to 16 quads or 32 pairs, waits behind a store: no compiler moves it there."""
    program = _residual(m)
    assert isinstance(program, ScheduledProgram)
    (kernel,) = (each for each in program.kernels("sm_90a", tmp_path) if "output" in each.split("(")[0])
    accesses = [
        "load" if "ld.global" in line else "store"
        for line in kernel.splitlines()
        if "ld.global" in line or "st.global" in line
    ]
    assert accesses.count("store") == m * m
    changes = sum(one != other for one, other in pairwise(accesses))
    assert changes == 2 * groups - 1
