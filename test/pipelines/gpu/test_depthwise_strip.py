"""Depthwise convolutions whose threads walk down strips of images, against float64."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from agreement import expect_within
from checked_programs import check_together
from iree.winograd.dialect.decomposition import decompose
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.gpu.choice.default_schedule import default_schedules
from iree.winograd.pipelines.gpu.schedules.columns import DepthwiseStripSchedule
from iree.winograd.pipelines.machines.defaults import default_gpu_machine
from iree.winograd.pipelines.problems.shape import ConvolutionShape
from ptx_interpreter import Kernel
from scheduled_program import HOPPER, ScheduledProgram
from wide import wide

SAME = ScheduledProgram(
    (9, 11),
    40,
    40,
    (3, 3),
    (1, 1),
    (1, 1),
    low=(1, 1),
    high=(1, 1),
    groups=40,
    batch=2,
    schedule=DepthwiseStripSchedule(32, 2, lanes=8),
)
UNEVEN = replace(
    SAME,
    size=(7, 10),
    kernel=(5, 3),
    low=(1, 2),
    high=(3, 0),
    activation="gelu",
    schedule=DepthwiseStripSchedule(40, 3, channels=2, lanes=20),
)


def test_agrees_with_float64(gpu_target: str, gpu_device: str) -> None:
    """Strips that don't divide images, padding of other heights, filters known only at run time."""
    quads = DepthwiseStripSchedule(20, 1, channels=4, lanes=10)
    # As wide as the image: some of what the one strip reads is never there.
    whole = replace(SAME, schedule=DepthwiseStripSchedule(32, 11, lanes=8))
    programs = [SAME, whole, UNEVEN, replace(SAME, constant_filter=False), replace(UNEVEN, schedule=quads)]
    check_together(programs, target=gpu_target, devices=[gpu_device])


@pytest.mark.parametrize("program", [UNEVEN, *wide([SAME])])
def test_loads_where_the_image_has_pixels(program: ScheduledProgram, tmp_path: Path) -> None:
    """Through CUDA, where the kernel's text is run here: nothing beside the image is read."""
    schedule = DepthwiseStripSchedule(32, 3, channels=2, lanes=4)
    program = replace(program, batch=1, channels=8, outputs=8, groups=8, schedule=schedule)
    (module,) = (each for each in program.ptx("sm_90a", tmp_path) if "depthwise" in each)
    text = module.partition(".visible .entry")[2]
    image, filters, bias = program.arguments()
    rows, columns = program.output_size
    result = np.full((1, rows, columns, 8), np.nan, np.float32)
    name = re.search(r"\w+", text)
    assert name is not None
    taps = program.kernel[0] * program.kernel[1]
    workgroups = ((i, 0, 0) for i in range(-(-(-(-columns // 3) * 4) // 32)))
    Kernel.parsed(f".visible .entry{text}", name[0]).run(
        [image, filters.reshape(taps, 8), bias, result], workgroups
    )
    expect_within(result, program.expected(image, filters, bias), program.bound())


@pytest.mark.parametrize(
    ("size", "channels", "taps", "element", "strips"),
    [
        (14, 672, 5, "f32", True),
        (14, 384, 7, "f32", True),
        (28, 192, 7, "f32", False),
        (28, 120, 5, "f32", False),
        (28, 192, 7, "f16", False),
        (14, 672, 5, "f16", True),
        (28, 120, 5, "f16", False),
        (56, 96, 7, "f32", False),
    ],
)
def test_are_chosen_for_small_images_of_many_taps(
    size: int, channels: int, taps: int, element: str, strips: bool
) -> None:
    """Where an H200 took less time for 32 images."""
    low, all_channels = (taps // 2,) * 2, (channels,) * 3
    problem = ConvolutionProblem(32, (size,) * 2, low, low, (taps,) * 2, (1, 1), (1, 1), *all_channels)
    shape = ConvolutionShape.decomposed(problem, decompose((taps,) * 2, (1, 1), part_size=(1, 1)))
    shape = replace(shape, exact_type=None if element == "f32" else element)
    offered = default_schedules(shape, HOPPER, default_gpu_machine("sm_90a"))
    # Matrix units have others.
    (chosen,) = (each for each in offered if each.matrix_products == 0)
    assert isinstance(chosen, DepthwiseStripSchedule) == strips
