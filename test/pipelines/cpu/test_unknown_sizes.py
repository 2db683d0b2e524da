"""Kernels of images whose sizes are known only at run time, at many sizes of one program."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import iree.winograd
import numpy as np
import pytest
from agreement import expect_within
from convolution_program import Program
from iree.winograd.loading.runtime import ThreadsWarning
from iree.winograd.passes.infrastructure.algorithm import Algorithm
from iree.winograd.pipelines.cpu.kernels.direct import DirectKernel
from iree.winograd.pipelines.cpu.kernels.winograd import WinogradKernel
from iree.winograd.pipelines.cpu.schedules.depthwise import DepthwiseSchedule
from iree.winograd.pipelines.cpu.schedules.direct import DirectSchedule
from iree.winograd.pipelines.cpu.schedules.winograd import WinogradSchedule
from iree.winograd.pipelines.problems.schedule_range import ScheduleRange
from wide import wide

SIZES = [
    *[(size, size) for size in (1, 2, 5, 8, 13, 31)],
    *[(1, 61), (61, 1), (3, 40), (97, 5), (40, 53), (2, 15), (2, 16), (2, 17), (2, 25)],
]
"""Below a tile and a register block, a row and a column, primes, and larger than what is expected."""

ONE, SAME = (1, 1), {"low": (1, 1), "high": (1, 1)}
TILED = Program((28, 28), 20, 24, (3, 3), (4, 4), (3, 3), dynamic_size=True, **SAME)
DIRECT = replace(TILED, m=ONE, p=ONE)
POINTWISE = Program((28, 28), 20, 48, ONE, ONE, ONE, dynamic_size=True)
DEPTHWISE = Program((28, 28), 20, 20, (3, 3), ONE, ONE, groups=20, dynamic_size=True, **SAME)

PROGRAMS = [
    TILED.channels_first,
    replace(TILED, strides=(2, 2), p=(2, 2)),
    replace(TILED, dilations=(2, 2), low=(2, 2), high=(2, 2)),
    replace(TILED, groups=2, constant_filter=False),
    replace(TILED, low=(2, 0), high=(1, 3), activation="swish"),
    DIRECT.channels_first,
    replace(DIRECT, strides=(2, 3), dilations=(2, 1), low=(3, 2), high=(1, 2)),
    replace(DIRECT, channels=3, activation="swish"),
    replace(DIRECT, outputs=40, groups=2, dilations=(1, 2), low=(1, 2), high=(1, 2)),
    replace(DIRECT, outputs=20, kernel=(5, 5), low=(2, 2), high=(2, 2), adds_image=True),
    # What so many neighbours read is more than memory of a workgroup holds.
    replace(DIRECT, channels=2048, outputs=16, size=(12, 14)),
    replace(DIRECT, outputs=3).channels_first,
    replace(DIRECT, kernel=(1, 1), low=(0, 0), high=(0, 0), strides=(2, 2)),
    POINTWISE.channels_first,
    replace(POINTWISE, outputs=50, activation="hard swish", groups=2),
    DEPTHWISE.channels_first,
    replace(DEPTHWISE, strides=(2, 2), outputs=40),
    replace(DEPTHWISE, kernel=(5, 5), strides=(2, 1), low=(2, 1), high=(3, 2)),
    replace(DEPTHWISE, kernel=(1, 7), dilations=(1, 2), low=(0, 6), high=(0, 6), activation="swish"),
    replace(DEPTHWISE, strides=(3, 3), kernel=(3, 7), low=(0, 3), high=(1, 6)),
    replace(DEPTHWISE, kernel=(3, 3), low=(1, 0), high=(1, 2)),
    replace(DEPTHWISE, kernel=(3, 3), low=(1, 2), high=(1, 0)),
    replace(DEPTHWISE, kernel=(3, 80), low=(1, 40), high=(1, 39)),
    # One vector of channels that share pixels.
    replace(DIRECT, channels=5, outputs=8, kernel=(5, 5), low=(2, 2), high=(2, 2)),
    replace(DIRECT, channels=3, outputs=16, strides=(2, 2), input_channels_first=True),
    # Few channels of columns that are copied, or gathered, side by side and apart.
    replace(
        DIRECT, channels=3, outputs=40, kernel=(7, 7), low=(3, 3), high=(3, 3), strides=(2, 2)
    ).channels_first,
    replace(DIRECT, channels=2, dilations=(1, 3), low=(1, 3), high=(1, 2), input_channels_first=True),
]


STEM = replace(DIRECT, channels=3, outputs=40, strides=(2, 2), input_channels_first=True)


@pytest.mark.parametrize(
    "program", [TILED, replace(DEPTHWISE, strides=(1, 2)), *wide([DIRECT, STEM])], ids=str
)
def test_agrees_with_float64_at_some_sizes(program: Program) -> None:
    program.check_sizes([(1, 1), (3, 9), (9, 3), (28, 28), (17, 40), (2, 17), (5, 31)], threads=1)


def test_few_channels_of_any_size_are_read_where_they_lie() -> None:
    compiled = iree.winograd.compile(STEM.function("main"), threads=1, size_hint=STEM.size)
    assert b"winograd_channels_last" not in compiled


def test_rows_of_any_length_whose_ends_read_far_beyond() -> None:
    """A block between the first and the last one may read what is before the row, at some lengths."""
    program = replace(DIRECT, channels=3, outputs=16, dilations=(1, 8), low=(1, 8), high=(1, 8))
    program.check_sizes([(2, width) for width in range(1, 51)], threads=1)


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
@pytest.mark.wide
def test_agrees_with_float64_at_all_sizes(program: Program) -> None:
    program.check_sizes([size for size in SIZES if _allows_outputs(program, size)], threads=1)


@pytest.mark.parametrize("program", [TILED, DIRECT.channels_first, POINTWISE, DEPTHWISE], ids=str)
@pytest.mark.wide
def test_a_batch_may_be_unknown_beside_and_threads_several(program: Program) -> None:
    sizes = [(1, 7), (28, 28), (11, 37)]
    replace(program, dynamic_batch=True).check_sizes(sizes, batches=(1, 2, 5), threads=2)


@pytest.mark.parametrize(
    "program", [TILED, DIRECT.channels_first, *wide([DEPTHWISE, POINTWISE, STEM])], ids=str
)
def test_images_of_all_sizes_are_divided_among_threads(program: Program) -> None:
    """Into blocks smaller than a single thread has: of register blocks, rows, and pixels of a row."""
    program.check_sizes([(1, 1), (2, 17), (5, 8), (13, 13), (28, 28), (40, 53)], threads=3)


TILES = WinogradSchedule(8, 12, 6, 3, 16)
ROWS = DirectSchedule(8, 6, 3, 4, 28)
ONE_BY_ONE = Algorithm(ONE, ONE)
FEW_ROWS = ScheduleRange(DirectSchedule(8, 4, 1, 2, 12), 0.5, 9, ONE_BY_ONE)
SMALL_TILES = ScheduleRange(WinogradSchedule(8, 8, 4, 1, 20), 2.0, None, Algorithm((2, 3), (3, 3)))
LANES = DepthwiseSchedule(4, 6, 5, 2)
RANGED = [
    replace(TILED, schedule=TILES, ranges=(FEW_ROWS, ScheduleRange(TILES, 1.0, 49), SMALL_TILES)),
    replace(
        TILED,
        schedule=TILES,
        ranges=(ScheduleRange(replace(TILES, tile_block=6), 0.5, 49), ScheduleRange(TILES, 1.0, None)),
        dynamic_batch=True,
        output_channels_first=True,
    ),
    replace(
        DIRECT,
        schedule=ROWS,
        ranges=(
            ScheduleRange(replace(ROWS, register_pixels=3, channel_splits=3), 0.5, 100),
            ScheduleRange(ROWS, 1.0, 785),
            ScheduleRange(TILES, 2.0, None, Algorithm((4, 4), (3, 3))),
        ),
        outputs=72,
        activation="swish",
    ),
    replace(
        DEPTHWISE,
        schedule=LANES,
        ranges=(
            ScheduleRange(DepthwiseSchedule(4, 3, 2, 9, image_prefetch=1), 0.5, 25),
            ScheduleRange(LANES, 1.0, None),
        ),
        adds_image=True,
    ),
]
"""Of two or three kernels, some by another algorithm, each for images of so many tiles."""
RANGED_SIZES = [
    (1, 1),
    (5, 5),
    (4, 6),
    (8, 9),
    (9, 9),
    (9, 11),
    (10, 10),
    (25, 25),
    (28, 28),
    (5, 157),
    (29, 40),
]
"""Of one tile or output less than a range begins with, of as many, and others."""


@pytest.mark.parametrize("program", RANGED, ids=str)
def test_the_kernels_of_all_ranges_agree_with_float64(program: Program) -> None:
    batches = (1, 3) if program.dynamic_batch else (1,)
    program.check_sizes(RANGED_SIZES, batches, threads=1, strict=True)


@pytest.mark.parametrize("program", [RANGED[0], *wide(RANGED[1:])], ids=str)
def test_the_kernels_of_all_ranges_wait_for_each_other(program: Program) -> None:
    program.check_sizes(RANGED_SIZES, threads=3, strict=True)


def test_a_kernel_that_a_range_misfits_is_left_out() -> None:
    """Filters known only in a call are packed for one kernel, which is right for all sizes."""
    program = replace(RANGED[0], constant_filter=False, output_channels_first=True, input_channels_first=True)
    program.check_sizes([(5, 5), (28, 28), (29, 40)], threads=1)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_first_call_may_be_on_images_without_pixels(threads: int) -> None:
    """Commands that are kept for calls on the same sizes aren't there yet, whatever these are."""
    compiled = iree.winograd.compile(POINTWISE.function("main"), threads=threads)
    _, _, bias = POINTWISE.arguments()
    for empty in [(0, 0), (0, 5)]:
        function = iree.winograd.load(compiled, device="local-task", threads=threads)
        result = function(np.zeros((1, *empty, POINTWISE.channels), np.float32), bias)
        assert np.asarray(result).shape == (1, *empty, POINTWISE.outputs)
        replace(POINTWISE, size=(3, 5)).expect_right(function)


@pytest.mark.parametrize("kernels", [(DirectKernel,), (DirectKernel, WinogradKernel)], ids=len)
def test_ranges_whose_kernels_cannot_be_emitted_cost_no_more_than_they_have_to(
    monkeypatch: pytest.MonkeyPatch, kernels: tuple[type[Any], ...]
) -> None:
    """A layer has the kernel of its one schedule then, and is IREE's only if that can't be emitted either."""

    def failing(emit: Callable[..., None]) -> Callable[..., None]:
        def fail(*arguments: object) -> None:
            emit(*arguments)
            raise KeyError("an oversight")

        return fail

    for kernel in kernels:
        monkeypatch.setattr(kernel, "emit", failing(kernel.emit))
    program = RANGED[0]
    with pytest.warns(iree.winograd.RewriteWarning) as caught:
        compiled = iree.winograd.compile(program.function("main"), threads=1, size_hint=program.size)
    has_kernel = WinogradKernel not in kernels
    left = "ranged kernel 0" if has_kernel else "convolution 0"
    assert f"'an oversight'; {left} was left as it is" in str(caught[-1].message)
    assert (b"winograd_f4x4_3x3" in compiled) == has_kernel
    function = iree.winograd.load(compiled, device="local-sync")
    for size in RANGED_SIZES:
        replace(program, size=size).expect_right(function)


def _allows_outputs(program: Program, size: tuple[int, ...]) -> bool:
    return min(replace(program, size=size).output_size) > 0


@pytest.mark.wide
def test_signals_and_volumes() -> None:
    padded = {"low": (1,), "high": (1,)}
    signal = Program((40,), 8, 16, (3,), (4,), (3,), dynamic_size=True, **padded)
    signal.check_sizes([(1,), (7,), (40,), (61,)], threads=1)
    padded = {"low": (1, 1, 1), "high": (1, 1, 1)}
    volume = Program((6, 8, 9), 8, 16, (3, 3, 3), (2, 2, 2), (3, 3, 3), dynamic_size=True, **padded)
    volume.check_sizes([(1, 1, 1), (2, 7, 5), (6, 8, 9), (3, 11, 10)], threads=1)
    channelwise = replace(volume, outputs=8, groups=8, m=(1, 1, 1), p=(1, 1, 1))
    channelwise.check_sizes([(1, 1, 1), (2, 7, 5), (3, 11, 10)], threads=1)


MORE_PADDED = replace(TILED, low=(2, 2), high=(1, 3))
"""Outputs of an image without rows, or columns, are those of zeros."""


@pytest.mark.parametrize(
    "program",
    [
        replace(DEPTHWISE, low=(2, 2), high=(1, 1), dynamic_batch=True),
        *wide([MORE_PADDED, replace(MORE_PADDED, m=ONE, p=ONE)]),
    ],
    ids=str,
)
def test_images_may_have_no_pixels(program: Program) -> None:
    batches = (0, 1) if program.dynamic_batch else (1,)
    program.check_sizes([(0, 5), (5, 0), (0, 0), (3, 4)], batches, threads=1)


@pytest.mark.parametrize("program", [DEPTHWISE, *wide([TILED, DIRECT, POINTWISE.channels_first])], ids=str)
def test_there_may_be_no_outputs(program: Program) -> None:
    compiled = iree.winograd.compile(program.function("main"), threads=1, size_hint=program.size)
    run = iree.winograd.load(compiled, device="local-sync")
    for size in [(0, 5), (5, 0), (0, 0)]:
        sized = replace(program, size=size)
        given, *others = sized.given(*sized.arguments())
        assert np.asarray(run(given, *others)).size == 0


def test_scratch_memory_is_that_of_a_call() -> None:
    """That of a program for one thread, which several call at once, and workers run."""
    program = replace(TILED, channels=64, outputs=64)
    compiled = iree.winograd.compile(program.function("main"), threads=1, size_hint=program.size)
    alone = iree.winograd.load(compiled, device="local-sync")
    with pytest.warns(ThreadsWarning):
        by_workers = iree.winograd.load(compiled, device="local-task", threads=2)
    sized = [replace(program, size=size) for size in ((28, 28), (5, 31), (40, 53))]
    with ThreadPoolExecutor(4) as pool:
        for run in (alone, by_workers):
            for result, expected in pool.map(lambda each, run=run: each.results(run), sized * 4):
                expect_within(result, expected, program.bound())
