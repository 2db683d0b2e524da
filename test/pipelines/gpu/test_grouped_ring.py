"""Convolutions of groups of eight channels on matrix units: results, and when they are chosen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from agreement import expect_within
from iree.winograd.dialect.decomposition import decompose
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.emission.work import Sizes
from iree.winograd.pipelines.gpu.choice.default_schedule import default_schedules
from iree.winograd.pipelines.gpu.choice.stage_seconds import stage_seconds
from iree.winograd.pipelines.gpu.kernels.grouped.grouped_ring import GroupedRingKernel
from iree.winograd.pipelines.gpu.schedules.grouped_ring import GroupedRingSchedule
from iree.winograd.pipelines.machines.defaults import default_gpu_machine
from iree.winograd.pipelines.problems.shape import ConvolutionShape
from ptx_interpreter import Kernel
from scheduled_program import HOPPER, ScheduledProgram
from wide import wide

PLAIN = ScheduledProgram(
    (9, 10),
    16,
    16,
    (3, 3),
    (1, 1),
    (1, 1),
    low=(1, 1),
    high=(1, 1),
    groups=2,
    batch=2,
    schedule=GroupedRingSchedule(64, units=2, images=2, rows=8),
)
UNITS = 2.0**-22
"""Matrix units truncate each of their sums, whose numbers have 22 bits."""


@pytest.mark.parametrize(
    "program",
    [
        PLAIN,
        replace(PLAIN, size=(17, 18), strides=(2, 2)),
        # A ring that rows take the place of others in.
        replace(PLAIN, size=(30, 6), strides=(2, 2), schedule=replace(PLAIN.schedule, rows=16)),
        # Several warps for a row, one of them with nothing to copy.
        replace(
            PLAIN,
            size=(14, 18),
            strides=(2, 2),
            schedule=GroupedRingSchedule(192, units=2, rows=4, strip_rows=2, spare_strips=2),
        ),
        *wide(
            [
                replace(PLAIN, adds_image=True, activation="gelu"),
                replace(PLAIN, kernel=(5, 4), low=(0, 3), high=(2, 1), constant_filter=False),
                replace(PLAIN, schedule=GroupedRingSchedule(96, units=1, images=1, rows=4), strides=(2, 2)),
                replace(PLAIN, schedule=replace(PLAIN.schedule, rows=7, strip_rows=7)),
                replace(PLAIN, size=(21, 8), schedule=replace(PLAIN.schedule, rows=12, strip_rows=1)),
            ]
        ),
    ],
    ids=str,
)
def test_all_outputs_are_right(program: ScheduledProgram, tmp_path: Path) -> None:
    """Of images of f32 whose numbers are f16's. Shared memory that nobody wrote to has no numbers."""
    (text,) = program.ptx("sm_80", tmp_path)
    schedule = program.schedule
    assert isinstance(schedule, GroupedRingSchedule)
    ones = (1, 1)
    strides, low, high = (program.per_dimension(*each) for each in (("strides", 1), ("low", 0), ("high", 0)))
    problem = ConvolutionProblem(
        program.batch, program.size, low, high, program.kernel, strides, ones, program.groups, 16, 16
    )
    decomposition = decompose(program.kernel, ones, strides=strides, part_size=ones)
    shape = ConvolutionShape.decomposed(problem, decomposition)
    image, filters, bias = (each.astype(np.float16).astype(np.float32) for each in program.arguments())
    result = np.full((program.batch, *program.output_size, program.channels), np.nan, np.float32)
    taps = filters.reshape(-1, 8, 16) if program.constant_filter else filters
    (count,) = GroupedRingKernel(shape, schedule).workgroups(Sizes.of_batch(program.batch))
    workgroups = ((i, 0, 0) for i in range(count.known or 0))
    Kernel.by_stage(text)["grouped"].run([image, taps, bias, result], workgroups)
    terms = 8 * program.kernel[0] * program.kernel[1]
    slope = 1.13 if program.activation == "gelu" else 1.0
    most = np.abs(image).max() * (np.abs(filters).reshape(terms, -1).sum(0) + 1) + np.abs(bias)
    expect_within(result, program.expected(image, filters, bias), slope * (terms + 4) * UNITS * most)


@pytest.mark.parametrize(
    ("size", "channels", "stride", "element", "is_chosen"),
    [
        (7, 368, 1, "f16", True),
        (14, 368, 2, "f16", True),
        (7, 368, 1, None, False),
        (56, 56, 2, "f16", True),
        (14, 152, 1, "f16", False),
        (112, 24, 2, "f16", True),
        (112, 16, 2, "f16", False),
    ],
)
def test_is_chosen_for_small_images_and_few_groups(
    size: int, channels: int, stride: int, element: str | None, is_chosen: bool
) -> None:
    """Where an H200 took less time for 32 images."""
    taps, ones, strides = (3, 3), (1, 1), (stride, stride)
    groups = channels // 8
    problem = ConvolutionProblem(
        32, (size, size), ones, ones, taps, strides, ones, groups, channels, channels
    )
    decomposition = decompose(taps, ones, strides=strides, part_size=ones)
    shape = replace(ConvolutionShape.decomposed(problem, decomposition), exact_type=element)
    machine = default_gpu_machine("sm_90a")
    offered = default_schedules(shape, HOPPER, machine)
    chosen = min(offered, key=lambda each: sum(stage_seconds(shape, each, machine).values()))
    assert isinstance(chosen, GroupedRingSchedule) == is_chosen
