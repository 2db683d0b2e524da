"""Pixels that stream through warps by narrow filters: results, code, and when they are chosen.

By the interpreter of PTX; no GPU of NVIDIA takes part unless `--gpu` names one.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from iree.winograd.compiling.assembler import installed_assembler
from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.decomposition import decompose
from iree.winograd.dialect.reference import convolution
from iree.winograd.passes.match.convolutions.element_types import F32, ElementTypes
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.work import Sizes
from iree.winograd.pipelines.gpu.choice.candidate_schedules import schedules
from iree.winograd.pipelines.gpu.choice.stage_seconds import stage_seconds
from iree.winograd.pipelines.gpu.kernels.direct.streamed import StreamedKernel
from iree.winograd.pipelines.gpu.packing.streamed import StreamedPacking
from iree.winograd.pipelines.gpu.schedules.fit import kernel_misfit
from iree.winograd.pipelines.gpu.schedules.streamed import StreamedSchedule
from iree.winograd.pipelines.machines.defaults import default_gpu_machine
from iree.winograd.pipelines.problems.shape import ConvolutionShape
from ptx_interpreter import Kernel
from ptxas import spilled_bytes
from scheduled_program import AMPERE, HOPPER, ScheduledProgram
from wide import wide

SCHEDULE = StreamedSchedule(16, 32, warps=2, walking_workgroups=2)
PLAIN = ScheduledProgram((5, 5), 16, 24, (1, 1), (1, 1), (1, 1), batch=3, schedule=SCHEDULE)
TOGETHER = StreamedSchedule(16, 32, warps=4, walking_workgroups=2, warpgroup_columns=32)
WIDE = replace(TOGETHER, block_columns=96, warpgroup_columns=48, warps=8, summed_block=64)
TWO_GROUPS = replace(SCHEDULE, block_columns=16, warps=4, groups=2)
GROUPED = replace(
    PLAIN,
    channels=24,
    kernel=(3, 3),
    strides=(2, 2),
    low=(1, 1),
    high=(1, 1),
    groups=3,
    schedule=TWO_GROUPS,
)
HALF = ElementTypes("f16", "f32", "f32", "f16", "f32")
SPILLED_BYTES_OF_MOST_SUMS = 32
"""Of a thread of 96 sums of split numbers. Spilling as many, 384 to 96 channels took an H200 78 us, and 83
and a kernel before by warpgroups."""
POINTWISE = "kernel 1x1 stride 1x1 dilation 1x1 padding 0x0 0x0 groups"


def _shape(text: str) -> ConvolutionShape:
    problem = ConvolutionProblem.parse(text)
    ones = (1,) * len(problem.kernel_size)
    direct = decompose(problem.kernel_size, ones, strides=problem.strides, part_size=ones)
    return ConvolutionShape.decomposed(problem, direct)


def _shape_of(program: ScheduledProgram) -> ConvolutionShape:
    sizes = [program.size, program.kernel, *(program.per_dimension(*each) for each in _DEFAULTS)]
    size, kernel, strides, low, high = ("x".join(map(str, each)) for each in sizes)
    return _shape(
        f"{program.batch}x{size}x{program.channels}->{program.outputs} kernel {kernel} stride {strides} "
        f"dilation 1x1 padding {low} {high} groups {program.groups} f32"
    )


_DEFAULTS = (("strides", 1), ("low", 0), ("high", 0))


@pytest.mark.parametrize(
    "program",
    [
        PLAIN,
        GROUPED,
        replace(PLAIN, channels=48, schedule=replace(SCHEDULE, channel_blocks=2, summed_block=32)),
        replace(PLAIN, dynamic_size=True, adds_image=True, outputs=16),
        replace(PLAIN, size=(4, 4), channels=18, outputs=26, schedule=TOGETHER),
        *wide(
            [
                replace(PLAIN, outputs=32, schedule=TOGETHER),
                replace(PLAIN, dynamic_size=True, adds_image=True, outputs=16, schedule=TOGETHER),
                replace(PLAIN, channels=18, outputs=26),
                replace(PLAIN, channels=80, outputs=96, schedule=WIDE),
                replace(PLAIN, channels=20, schedule=replace(SCHEDULE, block_rows=32, block_columns=16)),
                replace(PLAIN, channels=80, schedule=replace(SCHEDULE, summed_block=32)),
                replace(PLAIN, channels=80, schedule=replace(SCHEDULE, channel_blocks=3, summed_block=16)),
                replace(PLAIN, strides=(2, 2), adds_image=False),
                replace(PLAIN, channels=58, outputs=26, schedule=replace(SCHEDULE, channel_blocks=2)),
                replace(PLAIN, size=(4, 4), channels=26, outputs=26, adds_image=True),
                replace(
                    PLAIN, size=(8, 6), channels=24, outputs=18, schedule=replace(SCHEDULE, block_rows=32)
                ),
                replace(PLAIN, channels=58, outputs=30, adds_image=False, schedule=TOGETHER),
                replace(PLAIN, channels=14, outputs=14, adds_image=True, schedule=TOGETHER),
                replace(PLAIN, outputs=64, schedule=replace(SCHEDULE, block_columns=64)),
            ]
        ),
    ],
    ids=str,
)
def test_all_outputs_are_right(program: ScheduledProgram, tmp_path: Path) -> None:
    """Last blocks of rows, of channels, columns and groups are parts of ones; sizes are known or not."""
    schedule, shape = program.schedule, _shape_of(program)
    assert isinstance(schedule, StreamedSchedule)
    (text,) = program.ptx("sm_80" if schedule.warpgroup_columns is None else "sm_90a", tmp_path)
    kernel, packing = Kernel.by_stage(text)["direct"], StreamedPacking(shape, schedule)
    image, filters, bias = program.arguments()
    # Rows of other scales: large ones that some blocks of channels don't have.
    image[0, :, :, -1] *= 1000
    taps = np.stack([filters[view] for view in shape.decomposition.views])
    by_group = np.split(taps, program.groups, axis=-1)
    transformed = np.stack([each.reshape(-1, each.shape[-1]) for each in by_group]).astype(np.float64)
    packed = packing.pack_filters(transformed)
    inputs = shape.group_inputs

    def summed(of: type[np.ndarray] | np.ufunc) -> np.ndarray:
        return np.concatenate(
            [
                convolution(
                    of(image[..., group * inputs :][..., :inputs].astype(np.float64)),
                    of(np.split(filters, program.groups, axis=-1)[group].astype(np.float64)),
                    shape.strides,
                    (1, 1),
                    shape.padding_low,
                    shape.padding_high,
                )
                for group in range(program.groups)
            ],
            axis=-1,
        )

    exact, most = summed(np.positive), summed(np.abs)
    result = np.full(exact.shape, np.nan, np.float32)
    grid = [each.known for each in StreamedKernel(packing).workgroups(Sizes.of_batch(program.batch))]
    # Two words of each size that is known only at run time.
    sizes = [np.array(word) for size in program.size for word in (size, 0) if program.dynamic_size]
    arguments = [image, packed, bias, result, *sizes]
    kernel.run(arguments, iter(itertools.product(*(range(each or 0) for each in grid))))
    # Matrix units truncate each of their sums, whose numbers have 22 bits.
    bound = (packing.reduction + 4) * 2.0**-22 * (most + np.abs(bias))
    biased = exact + bias + (image if program.adds_image else 0)
    assert (np.abs(result - np.maximum(biased, 0)) <= bound).all()


@pytest.mark.parametrize(
    ("channels", "outputs", "types"),
    [(24, 64, HALF), (40, 24, HALF), (144, 32, HALF), (20, 64, HALF), (16, 40, F32), (48, 64, F32)],
)
def test_filters_lie_as_threads_have_pixels_and_results(
    channels: int, outputs: int, types: ElementTypes
) -> None:
    """Constants, and what a kernel packs of filters known only at run time, place by place."""
    shape = replace(_shape(f"1x8x8x{channels}->{outputs} {POINTWISE} 1 f32"), element_types=types)
    schedule = replace(SCHEDULE, block_columns=ceil_div(outputs, 16) * 16)
    if types == HALF:
        schedule = replace(schedule, products=1, multiplied_type="f16")
    packing = StreamedPacking(shape, schedule)
    # Exact in f16; a number for each place.
    filters = np.arange(1, channels * outputs + 1, dtype=np.float64) % 2039
    padded = packing.by_quads(filters.reshape(1, channels, outputs))[0]
    for step, thread, pair, i in itertools.product(range(packing.steps), range(4), range(2), range(2)):
        octets = channels % 8 == 0 and types == HALF and step < packing.steps // 2 * 2
        within = step % 2 * 4 + thread * 8 if octets else thread * 4
        channel = (step // 2 * 32 if octets else step * 16) + within + pair * 2 + i
        row = padded[step * 16 + pair * 8 + thread * 2 + i]
        for column in range(outputs):
            by_octets = outputs % 8 == 0 and schedule.block_columns % 32 == 0 and types == HALF
            place = column
            if by_octets:
                place = column // 32 * 32 + column % 8 // 4 * 16 + column % 32 // 8 * 4 + column % 4
            exists = channel < channels
            assert row[place] == (filters[channel * outputs + column] if exists else 0), (channel, column)
    if types != HALF:
        return
    packed = packing.pack_filters(filters.reshape(1, channels, outputs)).view(np.float16)[0]
    for channel, quad in itertools.product(range(channels), range(outputs // 4)):
        stage, position = divmod(channel, schedule.block_reduction)
        for i, line in enumerate(packing.stage_lines(Index(quad * 4))):
            place = packing.stage_place(line + stage * schedule.block_columns, Index(position)).known
            assert place is not None and packed[place] == filters[channel * outputs + quad * 4 + i]


def test_nothing_waits_for_other_warps_but_for_filters(tmp_path: Path) -> None:
    (text,) = PLAIN.ptx("sm_90a", tmp_path)
    assert text.count("bar.sync") == 1
    assert "st.shared" not in text


@pytest.mark.skipif(installed_assembler() is None, reason="there is no assembler of NVIDIA's")
@pytest.mark.parametrize(
    "text",
    wide(
        [
            f"32x56x56x144->24 {POINTWISE} 1 f32",
            f"32x56x56x96->384 {POINTWISE} 1 f32",
            f"32x56x56x384->96 {POINTWISE} 1 f32",
            f"32x112x112x16->96 {POINTWISE} 1 f32",
            f"32x28x28x116->116 {POINTWISE} 1 f32",
        ]
    ),
)
def test_no_schedule_is_offered_that_spills(text: str, tmp_path: Path) -> None:
    shape, machine = _shape(text), default_gpu_machine("sm_90a")
    offered = [each for each in schedules(shape, HOPPER, machine) if isinstance(each, StreamedSchedule)]
    assert offered
    for number, schedule in enumerate(offered):
        folder = tmp_path / str(number)
        folder.mkdir()
        program = ScheduledProgram(
            shape.input_size,
            shape.input_channels,
            shape.output_channels,
            shape.kernel_size,
            *((1, 1),) * 2,
            batch=shape.images,
            low=shape.padding_low,
            high=shape.padding_high,
            groups=shape.groups,
            schedule=schedule,
        )
        program.ptx("sm_90a", folder)
        most = SPILLED_BYTES_OF_MOST_SUMS if schedule.channel_blocks > 1 and shape.exact_type is None else 0
        assert max(spilled_bytes(folder, "sm_90a").values()) <= most, schedule


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"4x14x14x17->64 {POINTWISE} 1 f32", "whole pairs"),
        (f"4x14x14x64->63 {POINTWISE} 1 f32", "whole pairs"),
        (f"4x14x14x36->36 {POINTWISE} 2 f32", ""),
        (f"4x14x14x36->28 {POINTWISE} 2 f32", "whole pairs"),
        (f"4x14x14x4096->64 {POINTWISE} 1 f32", "the target has fewer"),
    ],
)
def test_other_convolutions_are_refused(text: str, reason: str) -> None:
    assert reason in (kernel_misfit(_shape(text), AMPERE, SCHEDULE) or "")


@pytest.mark.parametrize(
    ("text", "streamed"),
    [
        (f"1x96x80x16->64 {POINTWISE} 1 f32", False),
        (f"1x48x40x24->96 {POINTWISE} 1 f32", False),
        (f"1x24x20x96->24 {POINTWISE} 1 f32", False),
        (f"32x112x112x16->16 {POINTWISE} 1 f32", True),
        (f"32x112x112x16->64 {POINTWISE} 1 f32", True),
        (f"32x112x112x24->32 {POINTWISE} 1 f32", True),
        (f"32x56x56x384->96 {POINTWISE} 1 f32, operands of f16, result of f16", False),
    ],
)
def test_pixels_stream_where_that_was_measured_to_be_faster(text: str, streamed: bool) -> None:
    shape, machine = _shape(text), default_gpu_machine("sm_90a")
    fastest = min(
        schedules(shape, HOPPER, machine), key=lambda each: sum(stage_seconds(shape, each, machine).values())
    )
    assert isinstance(fastest, StreamedSchedule) == streamed
