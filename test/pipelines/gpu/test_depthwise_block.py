"""Depthwise convolutions whose threads compute blocks of outputs, against float64."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from agreement import expect_within
from checked_programs import check_together
from convolution_program import Program
from iree.winograd.cuda.early_launch import with_waits
from iree.winograd.dialect.decomposition import decompose
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.gpu.choice.block_cost import block_seconds
from iree.winograd.pipelines.gpu.choice.candidate_schedules import schedules
from iree.winograd.pipelines.gpu.choice.default_schedule import default_schedules
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.gpu.schedules.columns import (
    DepthwiseBlockSchedule,
    DepthwiseStripSchedule,
    elements_read,
)
from iree.winograd.pipelines.gpu.schedules.fit import kernel_misfit
from iree.winograd.pipelines.machines.defaults import default_gpu_machine
from iree.winograd.pipelines.problems.shape import ConvolutionShape
from ptx_interpreter import Kernel
from scheduled_program import HOPPER, ScheduledProgram
from wide import wide, wide_combinations

OTHER = replace(HOPPER, residency_attribute=None)
SAME = ScheduledProgram((9, 11), 40, 40, (3, 3), (1, 1), (1, 1), low=(1, 1), high=(1, 1), groups=40, batch=2)
UNEVEN = ScheduledProgram(
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
BLOCKS = (DepthwiseBlockSchedule(64, 4, 4), DepthwiseBlockSchedule(32, 3, 2, resident=384))
PAIRS = DepthwiseBlockSchedule(32, 3, 3, channels=2, lanes=4, beside=2)
SINGLE = DepthwiseBlockSchedule(32, 2, 2, channels=1, lanes=8, beside=2)


ODD = replace(SAME, channels=7, outputs=7, groups=7)


@pytest.mark.parametrize(
    "programs",
    [
        [
            replace(SAME, schedule=BLOCKS[0]),
            replace(UNEVEN, schedule=BLOCKS[1], constant_filter=False),
            replace(ODD, schedule=BLOCKS[1]),
            replace(SAME, schedule=PAIRS),
            replace(UNEVEN, schedule=SINGLE),
            # Pairs of channels that are no whole quads.
            replace(SAME, channels=6, outputs=6, groups=6, schedule=replace(PAIRS, threads=33, lanes=3)),
        ],
        *wide(
            [
                [replace(SAME, schedule=BLOCKS[1]), replace(UNEVEN, schedule=BLOCKS[0])],
                [replace(SAME, schedule=SINGLE)],
                [replace(UNEVEN, schedule=BLOCKS[1])],
                [replace(ODD, schedule=BLOCKS[0], constant_filter=known) for known in (True, False)],
            ]
        ),
    ],
)
def test_agrees_with_float64(programs: list[ScheduledProgram], gpu_target: str, gpu_device: str) -> None:
    """Images of no whole number of blocks; a few taps and many, strides and dilations; GELU; channels that
    are no whole quads; filters known only at run time."""
    check_together(programs, target=gpu_target, devices=[gpu_device])


STRIDED_PAIRS = replace(
    SAME,
    kernel=(5, 5),
    strides=(2, 2),
    low=(2, 2),
    high=(2, 2),
    schedule=DepthwiseBlockSchedule(40, 2, 2, channels=2, lanes=20),
)


@pytest.mark.parametrize("program", [STRIDED_PAIRS, *wide([replace(SAME, schedule=BLOCKS[1])])], ids=str)
def test_numbers_of_images_and_sizes_that_are_known_at_run_time(
    program: ScheduledProgram, gpu_target: str, gpu_device: str
) -> None:
    program = replace(program, dynamic_batch=True, dynamic_size=True)
    program.check_sizes([(9, 11), (4, 3)], (1, 3), target=gpu_target, device=gpu_device)


@pytest.mark.parametrize(("stride", "channels"), [(2, 2), (1, 4)])
def test_large_strided_images_of_any_size_are_computed_by_pairs(stride: int, channels: int) -> None:
    """An H200 took 3.7 us of them where quads took 5.0, and 5.2 without strides where these took 3.9."""
    size, padding, taps, strides = (96, 80), (2, 2), (5, 5), (stride, stride)
    problem = ConvolutionProblem(
        1, size, padding, padding, taps, strides, (1, 1), 64, 64, 64, unknown_sizes=(0, 1)
    )
    decomposition = decompose(taps, (1, 1), strides=strides, part_size=(1, 1))
    shape = ConvolutionShape.decomposed(problem.resized(2.0), decomposition)
    machine = default_gpu_machine("sm_90a")
    blocks = [each for each in schedules(shape, HOPPER, machine) if isinstance(each, DepthwiseBlockSchedule)]
    fastest = min(blocks, key=lambda each: block_seconds(shape, each, machine)["depthwise"])
    assert fastest.channels == channels


@dataclass(frozen=True)
class HalfProgram(ScheduledProgram):
    """The same of f16."""

    def text(self, filters: npt.NDArray[Any] | None, name: str = "main") -> str:
        text = super().text(filters, name)
        image, result = (
            f"tensor<{self.batch}x{height}x{width}x{self.channels}x"
            for height, width in (self.size, self.output_size)
        )
        same = "affine_map<(n, h, w, c) -> (n, h, w, c)>"
        kinds = ", ".join(['"parallel"'] * 4)
        generic = f"linalg.generic {{indexing_maps = [{same}, {same}], iterator_types = [{kinds}]}}"
        widened = f"""
  %e = tensor.empty() : {image}f32>
  %image = {generic} ins(%stored : {image}f16>) outs(%e : {image}f32>) {{
  ^bb0(%in: f16, %out: f32):
    %number = arith.extf %in : f16 to f32
    linalg.yield %number : f32
  }} -> {image}f32>"""
        narrowed = f"""
  %r = tensor.empty() : {result}f16>
  %rounded = {generic} ins(%result : {result}f32>) outs(%r : {result}f16>) {{
  ^bb0(%in: f32, %out: f16):
    %number = arith.truncf %in : f32 to f16
    linalg.yield %number : f16
  }} -> {result}f16>
  return %rounded : {result}f16>"""
        text = text.replace(f"%image: {image}f32>", f"%stored: {image}f16>", 1)
        text = text.replace(f") -> {result}f32> {{", f") -> {result}f16> {{" + widened, 1)
        return text.replace(f"return %result : {result}f32>", narrowed)


@pytest.mark.parametrize(
    ("program", "schedule", "element"),
    [
        (SAME, BLOCKS[1], np.float16),
        (UNEVEN, SINGLE, np.float32),
        *wide_combinations(
            [
                (SAME, BLOCKS[1], np.float32),
                (SAME, PAIRS, np.float32),
                (SAME, PAIRS, np.float16),
                (UNEVEN, BLOCKS[1], np.float32),
                (UNEVEN, BLOCKS[1], np.float16),
                (UNEVEN, SINGLE, np.float16),
            ]
        ),
    ],
)
def test_loads_where_the_image_has_pixels(
    program: Program, schedule: DepthwiseBlockSchedule, element: type, tmp_path: Path
) -> None:
    """Through CUDA, where the kernel's text is run here: nothing beside the image is read. Each pixel of a
    block is loaded once, before the first branch, and none as if nobody wrote it (`cuda/early_launch.py`)."""
    kind = ScheduledProgram if element == np.float32 else HalfProgram
    facts = {each.name: getattr(program, each.name) for each in fields(program)}
    program = kind(**facts | {"batch": 1, "channels": 8, "outputs": 8, "groups": 8, "schedule": schedule})
    (module,) = (each for each in program.ptx("sm_90a", tmp_path) if "depthwise" in each)
    assert b".nc." not in with_waits(module.encode())
    text = module.partition(".visible .entry")[2]
    before, _, _ = text.partition("bra")
    decomposition = decompose(
        program.kernel, program.m, strides=program.strides, dilations=program.dilations, part_size=program.p
    )
    read = [elements_read(decomposition, each, d) for d, each in enumerate((schedule.rows, schedule.columns))]
    taps = program.kernel[0] * program.kernel[1]
    loads = len(read[0]) * len(read[1]) + taps
    # That of a bias may be before it, too.
    assert before.count("ld.global") in (loads, loads + 1)
    image, filters, bias = program.arguments()
    image = image.astype(element)
    rows, columns = program.output_size
    result = np.full((1, rows, columns, 8), np.nan, element)
    name = re.search(r"\w+", text)
    assert name is not None
    blocks, lanes = -(-rows // schedule.rows) * -(-columns // schedule.columns), 8 // schedule.channels
    workgroups = range(
        -(-blocks * (schedule.lanes or lanes) // schedule.threads) * lanes // (schedule.lanes or lanes)
    )
    kernel = Kernel.parsed(f".visible .entry{text}", name[0])
    kernel.run([image, filters.reshape(taps, 8), bias, result], ((i, 0, 0) for i in workgroups))
    expected = program.expected(image.astype(np.float32), filters, bias)
    rounded = np.finfo(element).eps / 2 * np.abs(expected).max() if element == np.float16 else 0.0
    expect_within(result, expected, program.bound() + rounded)


@pytest.mark.parametrize(
    ("batch", "taps", "target", "are_blocks"),
    [(32, 7, HOPPER, True), (32, 3, HOPPER, True), (1, 7, HOPPER, False), (32, 7, OTHER, False)],
)
def test_are_chosen_where_there_are_many_threads(
    batch: int, taps: int, target: GpuTarget, are_blocks: bool
) -> None:
    """On NVIDIA's GPUs."""
    low = (taps // 2,) * 2
    problem = ConvolutionProblem(batch, (28, 28), low, low, (taps, taps), (1, 1), (1, 1), 192, 192, 192)
    shape = ConvolutionShape.decomposed(problem, decompose((taps, taps), (1, 1), part_size=(1, 1)))
    (chosen,) = default_schedules(shape, target, default_gpu_machine("sm_90a"))
    assert isinstance(chosen, (DepthwiseBlockSchedule, DepthwiseStripSchedule)) == are_blocks


@pytest.mark.parametrize(
    ("size", "channels", "taps", "stride", "block"),
    [
        (14, 480, 3, 1, DepthwiseBlockSchedule(128, 7, 2)),
        (14, 672, 3, 1, DepthwiseBlockSchedule(128, 7, 2)),
        (14, 184, 3, 1, DepthwiseBlockSchedule(128, 2, 2)),
        (56, 72, 5, 2, DepthwiseBlockSchedule(252, 4, 4, channels=2, lanes=36)),
        (56, 144, 5, 2, DepthwiseBlockSchedule(252, 4, 4, channels=2, lanes=36)),
    ],
)
def test_half_precision_has_the_blocks_that_took_less_time(
    size: int, channels: int, taps: int, stride: int, block: DepthwiseBlockSchedule
) -> None:
    """On an H200, for 32 images."""
    shape = replace(_shape(size, channels, taps, stride), exact_type="f16")
    assert default_schedules(shape, HOPPER, default_gpu_machine("sm_90a")) == (block,)


def _shape(size: int, channels: int, taps: int, stride: int) -> ConvolutionShape:
    """Of 32 images."""
    low, all_channels = taps // 2, (channels,) * 3
    padding = (low,) * 2, (low + 1 - stride,) * 2
    problem = ConvolutionProblem(32, (size,) * 2, *padding, (taps,) * 2, (stride,) * 2, (1, 1), *all_channels)
    return ConvolutionShape.decomposed(
        problem, decompose((taps,) * 2, (1, 1), strides=(stride,) * 2, part_size=(1, 1))
    )


@pytest.mark.parametrize(
    ("size", "channels", "taps", "stride", "element", "block", "microseconds"),
    [
        (56, 144, 3, 1, "f16", DepthwiseBlockSchedule(128, 4, 4), 19.0),
        (56, 144, 3, 1, "f32", DepthwiseBlockSchedule(128, 2, 4), 33.8),
        (112, 96, 3, 2, "f16", DepthwiseBlockSchedule(128, 2, 2), 24.1),
        (28, 240, 5, 1, "f16", DepthwiseBlockSchedule(128, 4, 4, resident=384), 12.3),
        (14, 672, 5, 1, "f16", DepthwiseBlockSchedule(128, 2, 7, resident=384), 9.2),
        (56, 96, 7, 1, "f32", DepthwiseBlockSchedule(256, 7, 7, channels=1, lanes=32), 33.2),
        (56, 144, 5, 2, "f32", DepthwiseBlockSchedule(288, 4, 4, channels=2, lanes=36), 22.9),
    ],
)
def test_takes_what_is_predicted(
    size: int,
    channels: int,
    taps: int,
    stride: int,
    element: str,
    block: DepthwiseBlockSchedule,
    microseconds: float,
) -> None:
    """As an H200 took for 32 images, within a sixth."""
    shape = _shape(size, channels, taps, stride)
    shape = shape.with_element_types(replace(shape.element_types, input=element, result=element))
    predicted = block_seconds(shape, block, default_gpu_machine("sm_90a"))["depthwise"]
    assert predicted == pytest.approx(microseconds * 1e-6, rel=1 / 6)


def test_is_for_images_of_two_dimensions() -> None:
    problem = ConvolutionProblem(1, (40,), (0,), (0,), (3,), (1,), (1,), 64, 64, 64)
    shape = ConvolutionShape.decomposed(problem, decompose((3,), (1,), part_size=(1,)))
    assert "two dimensions" in (kernel_misfit(shape, HOPPER, BLOCKS[0]) or "")
