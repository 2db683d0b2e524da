"""Depthwise convolutions on Vulkan by other schedules than the default one, against float64."""

from __future__ import annotations

import pytest
from iree.winograd.pipelines.gpu.schedules.columns import GpuDepthwiseSchedule
from scheduled_program import ScheduledProgram


@pytest.mark.parametrize("sizes", [(64, 4, 4), (128, 32, 3)])
def test_agrees_with_float64(sizes: tuple[int, int, int], gpu_target: str, gpu_device: str) -> None:
    program = ScheduledProgram(
        (9, 11),
        40,
        40,
        (3, 3),
        (1, 1),
        (1, 1),
        low=(1, 1),
        high=(1, 1),
        groups=40,
        schedule=GpuDepthwiseSchedule(*sizes),
    )
    program.check(target=gpu_target, device=gpu_device)


def test_many_rows_of_taps_strides_and_dilations(gpu_target: str, gpu_device: str) -> None:
    """Rows of taps are a loop, and some read padding alone; the last columns don't exist; GELU follows."""
    program = ScheduledProgram(
        (15, 19),
        8,
        8,
        (7, 3),
        (1, 1),
        (1, 1),
        strides=(2, 3),
        dilations=(1, 2),
        low=(5, 4),
        high=(3, 2),
        groups=8,
        activation="gelu",
        schedule=GpuDepthwiseSchedule(64, 4, columns=3),
    )
    program.check(target=gpu_target, device=gpu_device)


def test_quads_that_are_no_power_of_two_are_an_error() -> None:
    with pytest.raises(ValueError, match="quads 12 must be a power of two that divides threads 128"):
        GpuDepthwiseSchedule(128, 12)
