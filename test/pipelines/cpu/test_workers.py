"""What threads that share a dispatch are predicted to take from each other and to wait for."""

from __future__ import annotations

from dataclasses import replace
from math import lcm

import pytest
from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.passes.infrastructure.algorithm import Algorithm
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.cpu.backend import CpuBackend
from iree.winograd.pipelines.cpu.choice.layout_cost import shared_line_seconds
from iree.winograd.pipelines.cpu.choice.rates import SHARED_LINE_SECONDS
from iree.winograd.pipelines.cpu.choice.search_space import CpuSearchSpace
from iree.winograd.pipelines.cpu.choice.workers import Workers
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.schedules.direct import DirectSchedule
from iree.winograd.pipelines.cpu.schedules.winograd import WinogradSchedule
from iree.winograd.pipelines.machines.model import CpuMachine
from iree.winograd.pipelines.selection.candidates import convolution_shape

TARGET = CpuTarget.of("sapphirerapids", "+avx512f")
MACHINE = CpuBackend(TARGET).default_machine
TILES_OF_4 = Algorithm((4, 4), (3, 3))


def problem(size: int, channels: int, batch: int = 1, taps: int = 3) -> ConvolutionProblem:
    padding = (taps // 2, taps // 2)
    return ConvolutionProblem(
        batch, (size, size), padding, padding, (taps, taps), (1, 1), (1, 1), 1, channels, channels
    )


def channels_first(convolution: ConvolutionProblem) -> ConvolutionProblem:
    return replace(convolution, input_channels_first=True, output_channels_first=True)


def default_schedule(convolution: ConvolutionProblem, machine: CpuMachine, threads: int) -> WinogradSchedule:
    schedule = CpuSearchSpace(TARGET, machine, threads).default_schedule(
        convolution_shape(convolution, TILES_OF_4)
    )
    assert isinstance(schedule, WinogradSchedule)
    return schedule


def workgroups(convolution: ConvolutionProblem, schedule: WinogradSchedule) -> int:
    tiles = convolution_shape(convolution, TILES_OF_4).tiles
    assert tiles is not None
    return ceil_div(tiles, schedule.tile_block) * schedule.channel_splits


def test_one_thread_waits_for_nobody() -> None:
    alone = Workers(MACHINE, 1, 12)
    assert (alone.load, alone.start_seconds, alone.waiting_seconds(1.0)) == (12, 0, 0)


def test_threads_that_share_cores_slow_each_other_down() -> None:
    assert Workers(replace(MACHINE, cores=8), 16, 32).load == pytest.approx(4)
    assert Workers(replace(MACHINE, cores=16), 16, 32).load == pytest.approx(2)


def test_a_last_round_of_few_workgroups_is_waited_for() -> None:
    even, uneven = (Workers(MACHINE, 16, count).waiting_seconds(count / 16) for count in (32, 33))
    assert uneven - even == pytest.approx(15 / 16)


@pytest.mark.skipif(not CpuBackend(TARGET).shares_workgroups, reason="helpers are for Linux")
def test_helpers_take_workgroups_one_by_one() -> None:
    """IREE's runtime hands out eight at a time where there are as many for each thread, helpers never."""
    machine = CpuBackend(TARGET).search_space(threads=2).machine
    for count in (16, 32):
        workers, helped = Workers(MACHINE, 2, count), Workers(machine, 2, count)
        assert (workers.taken, helped.taken) == (8, 1)
        assert workers.waiting_seconds(1e-3) == pytest.approx(8 * helped.waiting_seconds(1e-3))


def test_memory_is_shared() -> None:
    machine = replace(MACHINE, memory_bandwidth=10e9, shared_memory_bandwidth=40e9)
    assert [Workers(machine, threads, 64).memory_bandwidth for threads in (1, 2, 16)] == [10e9, 20e9, 40e9]


@pytest.mark.parametrize("convolution", [problem(56, 64), problem(14, 256), problem(7, 512, 8)], ids=str)
@pytest.mark.parametrize("threads", [2, 8, 16])
def test_all_threads_get_work(convolution: ConvolutionProblem, threads: int) -> None:
    schedule = default_schedule(convolution, MACHINE, threads)
    # A thread may be left without where the others are done earlier by that.
    assert workgroups(convolution, schedule) >= 0.75 * threads


@pytest.mark.parametrize("algorithm", [TILES_OF_4, Algorithm((1, 1), (1, 1))], ids=str)
def test_threads_that_take_long_to_wake_up_are_left_asleep(algorithm: Algorithm) -> None:
    shape = convolution_shape(problem(8, 32), algorithm)
    slow = CpuSearchSpace(TARGET, replace(MACHINE, wake_seconds=1.0), 16)
    schedule = slow.default_schedule(shape)
    assert slow.stage_seconds(shape, schedule)["waiting"] == 0
    if isinstance(schedule, WinogradSchedule | DirectSchedule):
        assert schedule.channel_splits == 1


@pytest.mark.skipif(not CpuBackend(TARGET).shares_workgroups, reason="helpers are for Linux")
def test_small_layers_are_divided_among_a_caller_and_its_helpers() -> None:
    """Which begin sooner than workers that are asleep."""
    small = problem(12, 32)
    alone = default_schedule(small, MACHINE, 2)
    helped = CpuBackend(TARGET).search_space(threads=2).default_schedule(convolution_shape(small, TILES_OF_4))
    assert isinstance(helped, WinogradSchedule)
    assert (workgroups(small, alone), workgroups(small, helped)) == (1, 2)


@pytest.mark.parametrize("threads", [2, 8, 16])
@pytest.mark.parametrize("channels", [64, 512])
def test_images_of_any_size_have_a_workgroup_for_each_thread(channels: int, threads: int) -> None:
    """Of blocks and parts of their channels, which are no more than that takes."""
    convolution = replace(problem(7, channels), unknown_sizes=(0, 1))
    schedule = default_schedule(convolution, MACHINE, threads)
    assert schedule.block_multiple is not None
    assert schedule.block_multiple * schedule.channel_splits == lcm(threads, schedule.channel_splits)


def test_channels_are_divided_where_tiles_are_few() -> None:
    """So that each thread reads a part of the filters: 38 MB for 4 tiles."""
    schedule = default_schedule(problem(7, 512), MACHINE, 16)
    assert schedule.channel_splits >= 8


def test_tiles_are_divided_where_they_are_many() -> None:
    schedule = default_schedule(problem(56, 64, 8), MACHINE, 16)
    assert (schedule.channel_splits, schedule.input_block) == (1, None)


@pytest.mark.parametrize("threads", [8, 16])
def test_channels_first_outputs_are_divided_where_no_thread_writes_another_ones_lines(threads: int) -> None:
    """Rows of 14 tiles are written by one: others would write parts of each of their lines."""
    schedule = default_schedule(channels_first(problem(56, 64)), MACHINE, threads)
    assert schedule.tile_block % 14 == 0


@pytest.mark.parametrize(
    ("convolution", "tile", "tile_block", "threads", "ends"),
    [
        pytest.param(problem(56, 64), 4, 28, 16, 2, id="whole rows of tiles"),
        # One end of each begins a row, the other is in the middle of its four lines.
        pytest.param(problem(56, 64), 4, 7, 16, 1 + 4, id="half a row of tiles"),
        pytest.param(problem(7, 64, 8), 4, 8, 16, 0, id="whole images"),
        pytest.param(problem(56, 64), 4, 7, 1, 0, id="one thread"),
    ],
)
def test_lines_that_two_threads_write_are_counted(
    convolution: ConvolutionProblem, tile: int, tile_block: int, threads: int, ends: float
) -> None:
    shape = convolution_shape(channels_first(convolution), Algorithm((tile, tile), (3, 3)))
    workers = Workers(MACHINE, threads, 64)
    assert shared_line_seconds(shape, tile_block, workers) == pytest.approx(ends * SHARED_LINE_SECONDS)
    assert shared_line_seconds(shape.channels_last, tile_block, workers) == 0


def test_tiles_that_other_threads_wrote_cost_more_than_those_of_the_own_cache() -> None:
    shape = convolution_shape(problem(7, 256, 8), TILES_OF_4)
    space = CpuSearchSpace(TARGET, MACHINE, 8)
    apart = WinogradSchedule(
        vector_width=16,
        tile_block=32,
        register_tiles=4,
        register_vectors=2,
        reduction_block=32,
        channel_splits=8,
        input_block=1,
    )
    own = replace(apart, input_block=None)
    assert space.misfit(shape, own) is None
    inputs = [space.stage_seconds(shape, each)["input"] for each in (apart, own)]
    assert inputs[0] > inputs[1]
