"""Depthwise convolutions on Vulkan by other schedules than the default one, against float64."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from checked_programs import check_together
from iree.winograd.dialect.decomposition import decompose
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.gpu.choice.column_schedules import AHEAD_SCHEDULES
from iree.winograd.pipelines.gpu.choice.default_schedule import default_schedules
from iree.winograd.pipelines.gpu.schedules.columns import GpuDepthwiseSchedule
from iree.winograd.pipelines.gpu.schedules.fit import kernel_misfit
from iree.winograd.pipelines.machines.defaults import default_gpu_machine
from iree.winograd.pipelines.problems.shape import ConvolutionShape
from scheduled_program import HOPPER, ScheduledProgram


def test_agrees_with_float64(gpu_target: str, gpu_device: str) -> None:
    shape = ScheduledProgram((9, 11), 40, 40, (3, 3), (1, 1), (1, 1), low=(1, 1), high=(1, 1), groups=40)
    schedules = [GpuDepthwiseSchedule(*each) for each in ((64, 4, 4), (128, 32, 3), (64, 8, 2, 1))]
    programs = [replace(shape, schedule=each) for each in schedules]
    check_together(programs, target=gpu_target, devices=[gpu_device])


def test_many_rows_of_taps_strides_and_dilations(gpu_target: str, gpu_device: str) -> None:
    """Rows of taps are a loop, or loaded ahead; some read padding alone; the last columns don't exist; GELU
    follows."""
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
    )
    schedules = [GpuDepthwiseSchedule(64, 4, columns=3, rows_ahead=each) for each in (None, 2)]
    programs = [replace(program, schedule=each) for each in schedules]
    check_together(programs, target=gpu_target, devices=[gpu_device])


@pytest.mark.parametrize(("batch", "taps", "are_ahead"), [(1, 7, True), (1, 3, False), (32, 7, False)])
def test_rows_are_ahead_where_few_threads_wait(batch: int, taps: int, are_ahead: bool) -> None:
    low = (taps // 2,) * 2
    problem = ConvolutionProblem(batch, (14, 14), low, low, (taps, taps), (1, 1), (1, 1), 384, 384, 384)
    shape = ConvolutionShape.decomposed(problem, decompose((taps, taps), (1, 1), part_size=(1, 1)))
    (chosen,) = default_schedules(shape, HOPPER, default_gpu_machine("sm_90a"))
    assert (isinstance(chosen, GpuDepthwiseSchedule) and chosen.rows_ahead is not None) == are_ahead


def test_filters_that_exceed_shared_memory_are_not_brought_there() -> None:
    problem = ConvolutionProblem(1, (40, 40), (0, 0), (0, 0), (31, 31), (1, 1), (1, 1), 64, 64, 64)
    shape = ConvolutionShape.decomposed(problem, decompose((31, 31), (1, 1), part_size=(1, 1)))
    schedule = GpuDepthwiseSchedule(rows_ahead=1)
    assert "takes 246016 bytes of shared memory" in (kernel_misfit(shape, HOPPER, schedule) or "")
    assert kernel_misfit(shape, HOPPER, GpuDepthwiseSchedule()) is None


def test_registers_hold_rows_that_are_ahead(tmp_path: Path) -> None:
    """The assembler would load them later otherwise, and LLVM sums behind the last branch."""
    program = ScheduledProgram(
        (14, 14),
        384,
        384,
        (7, 7),
        (1, 1),
        (1, 1),
        low=(3, 3),
        high=(3, 3),
        groups=384,
        schedule=AHEAD_SCHEDULES[0],
    )
    (kernel,) = (each for each in program.kernels("sm_90a", tmp_path) if "depthwise" in each)
    before, _, after = kernel.partition("bar.sync")
    filters, rows = 49 * 16 // 128 + 1, 2 * 7
    assert before.count("ld.global") == filters + rows
    *_, last = after.split("bra")
    assert "fma" not in last
    assert ".minnctapersm 3" in kernel


def test_quads_that_are_no_power_of_two_are_an_error() -> None:
    with pytest.raises(ValueError, match="quads 12 must be a power of two that divides threads 128"):
        GpuDepthwiseSchedule(128, 12)
