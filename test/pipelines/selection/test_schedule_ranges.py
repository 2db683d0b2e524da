"""Which schedules images of different sizes get, and from which sizes on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod, sqrt

import pytest
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.infrastructure.algorithm import TAKES_FILTER_ATTRIBUTE_NAME, Algorithm
from iree.winograd.passes.match.convolutions.problem import OTHER_SIZES, ConvolutionProblem
from iree.winograd.pipelines.backends.schedules import schedule_ranges_of, set_schedule_ranges
from iree.winograd.pipelines.cpu.backend import CpuBackend
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.schedules.winograd import WinogradSchedule
from iree.winograd.pipelines.gpu.backend import GpuBackend
from iree.winograd.pipelines.gpu.schedules.gemm import GemmSchedule
from iree.winograd.pipelines.gpu.schedules.gemv import MAX_GEMV_F32_ROWS, GemvSchedule
from iree.winograd.pipelines.problems.schedule import LAUNCH_STAGE, Schedule
from iree.winograd.pipelines.problems.schedule_range import ScheduleRange, joined
from iree.winograd.pipelines.problems.shape import ConvolutionShape
from iree.winograd.pipelines.selection.candidates import convolution_shape, direct_algorithm
from iree.winograd.pipelines.selection.chooser import choose_suiting
from iree.winograd.pipelines.selection.implementation import Implementation
from iree.winograd.pipelines.selection.prediction import predict_fastest
from iree.winograd.pipelines.selection.schedule_ranges import schedule_ranges
from scheduled_program import HOPPER
from wide import wide

SPACE = GpuBackend(HOPPER).search_space()
FEW_PIXELS = ConvolutionProblem.parse(
    "1x?48x?40x96->24 kernel 1x1 stride 1x1 dilation 1x1 padding 0x0 0x0 groups 1 f32"
)
DEPTHWISE = ConvolutionProblem.parse(
    "1x?96x?80x64->64 kernel 5x5 stride 2x2 dilation 1x1 padding 2x2 2x2 groups 64 f32"
)
FILM = ConvolutionProblem.parse(
    "1x?8x?64x?48x3->16 kernel 3x3x3 stride 1x1x1 dilation 1x1x1 padding 1x1x1 1x1x1 groups 1 f32"
)
LIMIT = SPACE.max_relative_errors["f32"]


def _chosen(problem: ConvolutionProblem) -> Implementation:
    accurate = [each for each in predict_fastest(problem, SPACE, LIMIT) if each.keeps(LIMIT)]
    return choose_suiting(problem, SPACE, accurate)[0].implementation


def _kernel_seconds(problem: ConvolutionProblem, schedule: Schedule, times: float) -> float:
    shape = convolution_shape(problem.resized(times), direct_algorithm(problem))
    stages = SPACE.stage_seconds(shape, schedule)
    return sum(seconds for stage, seconds in stages.items() if stage != LAUNCH_STAGE)


def _taken(ranges: Sequence[ScheduleRange], tiles: int) -> ScheduleRange:
    return next(each for each in ranges if each.below is None or tiles < each.below)


@pytest.mark.parametrize("problem", [FEW_PIXELS, DEPTHWISE, *wide([FILM])], ids=str)
def test_images_whose_size_one_schedule_loses_at_have_another(problem: ConvolutionProblem) -> None:
    """An H200 took 1.3 to 1.6 times as long by one: at half the size, at twice, and at both."""
    chosen = _chosen(problem)
    ranges = schedule_ranges(problem, SPACE, chosen, LIMIT)
    assert len(ranges) > 1
    losses = []
    for times in (*OTHER_SIZES, 1.0):
        shape = convolution_shape(problem.resized(times), chosen.algorithm)
        assert shape.tiles is not None
        taken = _taken(ranges, shape.tiles)
        assert SPACE.misfit(shape.channels_last, taken.schedule) is None
        seconds = _kernel_seconds(problem, taken.schedule, times)
        fastest = min(_kernel_seconds(problem, each, times) for each in _alike(shape))
        assert seconds <= (1 + SPACE.range_rules.least_gain) * fastest
        losses.append(_kernel_seconds(problem, chosen.schedule, times) / seconds)
    assert max(losses) > 1 + SPACE.range_rules.most_loss


def _alike(shape: ConvolutionShape) -> Iterator[Schedule]:
    """Those of f32 that launch as many kernels."""
    for each in SPACE.schedules_of_size(shape):
        if each.product_type == "f32" and len(SPACE.stage_seconds(shape, each)) == 2:
            yield each


def test_few_pixels_are_rows_of_a_product() -> None:
    """The kernel that multiplies rows by a matrix takes no more of them than it was measured for."""
    ranges = schedule_ranges(FEW_PIXELS, SPACE, _chosen(FEW_PIXELS), LIMIT)
    few = ranges[0]
    assert isinstance(few.schedule, GemvSchedule)
    assert few.below is not None
    assert few.below <= 2 * MAX_GEMV_F32_ROWS


def test_a_range_begins_where_its_schedule_is_the_faster_one() -> None:
    ranges = schedule_ranges(DEPTHWISE, SPACE, _chosen(DEPTHWISE), LIMIT)
    for smaller, larger in pairwise(ranges):
        assert smaller.below is not None
        for times in (0.9, 1.1):
            size = sqrt(times * smaller.below / prod(DEPTHWISE.output_size))
            seconds = [_kernel_seconds(DEPTHWISE, each.schedule, size) for each in (smaller, larger)]
            assert (seconds[1] < seconds[0]) == (times > 1)


@pytest.mark.parametrize(
    "changed",
    [{"unknown_sizes": ()}, {"runtime_filter": True}],
    ids=lambda changed: next(iter(changed)),
)
def test_layers_with_one_schedule(changed: dict[str, object]) -> None:
    """Of known sizes, and those for which others would cost more than they bring."""
    problem = replace(FEW_PIXELS, **changed)
    assert schedule_ranges(problem, SPACE, _chosen(FEW_PIXELS), LIMIT) == ()


ENLARGED = ConvolutionProblem.parse(
    "1x?384x?320x32->3 kernel 3x3 stride 1x1 dilation 1x1 padding 1x1 1x1 groups 1 f32, output channels first"
)


def test_small_images_of_gpus_are_computed_by_another_algorithm() -> None:
    """An H200 took 16.6 us for half the size by three kernels of tiles, 10.2 by one, in f16."""
    chosen = _chosen(ENLARGED)
    small, others = schedule_ranges(ENLARGED, SPACE, chosen, LIMIT)
    assert small.algorithm not in (None, chosen.algorithm)
    assert (others.algorithm, others.schedule) == (None, chosen.schedule)
    shape = convolution_shape(ENLARGED.resized(small.times), small.algorithm or chosen.algorithm)
    own = convolution_shape(ENLARGED.resized(small.times), chosen.algorithm)
    seconds = sum(SPACE.sized_stage_seconds(shape.channels_last, small.schedule).values())
    least = min(sum(SPACE.stage_seconds(own, each).values()) for each in _as_accurate(own))
    assert least > seconds * (1 + SPACE.range_rules.algorithm_gain / 2)


def _as_accurate(shape: ConvolutionShape) -> Iterator[Schedule]:
    return (each for each in SPACE.schedules_of_size(shape) if each.product_type == "f32")


def test_a_given_tile_is_that_of_all_ranges() -> None:
    """Others would spread a NaN that an image is padded with."""
    direct = direct_algorithm(SMALL)
    for space, limit in ((SPACE, LIMIT), (CPU_SPACE, CPU_LIMIT)):
        candidates = predict_fastest(SMALL, space, limit, 1)
        chosen = next(each.implementation for each in candidates if each.implementation.algorithm == direct)
        assert all(each.algorithm is None for each in schedule_ranges(SMALL, space, chosen, limit, 1))


STRIDED = ConvolutionProblem.parse(
    "1x?8x?32x?24x32->16 kernel 3x3x3 stride 1x2x2 dilation 1x1x1 padding 1x1x1 1x1x1 groups 1 f32"
)
DILATED = ConvolutionProblem.parse(
    "1x?24x?20x32->16 kernel 3x3 stride 1x1 dilation 2x2 padding 2x2 2x2 groups 1 f32"
)
SMALL = ConvolutionProblem.parse(
    "1x?12x?10x64->64 kernel 3x3 stride 1x1 dilation 1x1 padding 1x1 1x1 groups 1 f32"
)
LARGE = ConvolutionProblem.parse(
    "1x?192x?160x64->64 kernel 3x3 stride 1x1 dilation 1x1 padding 1x1 1x1 groups 1 f32"
)
CPU_SPACE = CpuBackend(CpuTarget.of("sapphirerapids", "+avx2,+fma,+avx512f")).search_space()
CPU_LIMIT = CPU_SPACE.max_relative_errors["f32"]


def _chosen_for_cpu(problem: ConvolutionProblem) -> Implementation:
    accurate = [each for each in predict_fastest(problem, CPU_SPACE, CPU_LIMIT) if each.keeps(CPU_LIMIT)]
    return choose_suiting(problem, CPU_SPACE, accurate)[0].implementation


def _seconds_on_cpu(problem: ConvolutionProblem, implementation: Implementation, times: float) -> float:
    shape = convolution_shape(problem.resized(times), implementation.algorithm)
    return sum(CPU_SPACE.sized_stage_seconds(shape, implementation.schedule).values())


@pytest.mark.parametrize("problem", [STRIDED, DILATED, SMALL], ids=str)
def test_images_of_cpus_have_another_kernel_where_one_loses(problem: ConvolutionProblem) -> None:
    """Rows of 6 outputs by blocks of 12, one tile of a phase, tiles of a row's end: at half or twice."""
    chosen, most = _chosen_for_cpu(problem), 1 + CPU_SPACE.range_rules.most_loss
    ranges = schedule_ranges(problem, CPU_SPACE, chosen, CPU_LIMIT)
    assert len(ranges) > 1
    gains = []
    for times in (*OTHER_SIZES, 1.0):
        tiles = prod(convolution_shape(problem.resized(times), chosen.algorithm).tiles_per_image)
        taken = _taken(ranges, tiles)
        implementation = Implementation(taken.algorithm or chosen.algorithm, taken.schedule)
        gain = _seconds_on_cpu(problem, chosen, times) / _seconds_on_cpu(problem, implementation, times)
        assert gain == 1 or gain > most
        gains.append(gain)
    assert max(gains) > most
    assert gains[-1] == 1, "it was chosen for the expected size"


def test_small_images_are_computed_by_another_algorithm() -> None:
    chosen = _chosen_for_cpu(DILATED)
    small, others = schedule_ranges(DILATED, CPU_SPACE, chosen, CPU_LIMIT)
    assert small.algorithm is not None
    assert small.algorithm != chosen.algorithm
    assert (others.algorithm, others.schedule) == (None, chosen.schedule)


@pytest.mark.parametrize(
    "problem",
    [LARGE, replace(STRIDED, runtime_filter=True), replace(STRIDED, unknown_sizes=())],
    ids=["large", "filters-of-a-call", "known-sizes"],
)
def test_one_kernel_of_a_cpu_is_enough(problem: ConvolutionProblem) -> None:
    assert schedule_ranges(problem, CPU_SPACE, _chosen_for_cpu(problem), CPU_LIMIT) == ()


@pytest.mark.parametrize("problem", [DILATED, SMALL], ids=str)
def test_each_range_of_small_images_has_some(problem: ConvolutionProblem) -> None:
    """Half and twice of a few pixels may be as many tiles."""
    for size in (2, 5):
        small = replace(problem, input_size=tuple(min(each, size) for each in problem.input_size))
        ends = [each.below for each in schedule_ranges(small, CPU_SPACE, _chosen_for_cpu(small), CPU_LIMIT)]
        assert ends[:-1] == sorted({end for end in ends if end is not None})


def test_kernels_of_all_ranges_have_the_memory_of_a_workgroup() -> None:
    """Each has its own: two that take most of it aren't of one layer."""
    shape = convolution_shape(LARGE, Algorithm((4, 4), (3, 3)))
    tiles = WinogradSchedule(16, 112, 7, 2, 16)
    assert CPU_SPACE.misfit(shape, tiles) is None
    assert CPU_SPACE.holds_memory([(shape, tiles)])
    assert not CPU_SPACE.holds_memory([(shape, tiles), (shape, tiles)])


def test_neighbours_of_one_schedule_are_joined() -> None:
    first, second = GemmSchedule(32, 32, 16, 4, 4), GemmSchedule(64, 32, 16, 8, 4)
    ranges = [ScheduleRange(first, 0.5, 10), ScheduleRange(second, 1.0, 20), ScheduleRange(second, 2.0, None)]
    assert joined(ranges) == (ranges[0], ScheduleRange(second, 1.0, None))


def test_ranges_are_an_attribute() -> None:
    ranges = (
        ScheduleRange(GemmSchedule(32, 32, 16, 4, 4), 0.5, 10, Algorithm((2, 2), (3, 3))),
        ScheduleRange(GemmSchedule(64, 32, 16, 8, 4), 1.0, None),
    )
    with ir.Context(), ir.Location.unknown():
        operation = ir.Module.create().operation
        assert schedule_ranges_of(operation) == ()
        set_schedule_ranges(operation, ranges)
        assert schedule_ranges_of(operation) == ranges
        assert TAKES_FILTER_ATTRIBUTE_NAME in operation.attributes, "two kernels transform filters"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("[]", "expected an array of ranges"),
        ("[{times = 1.0 : f64}]", "expected schedule, times and below_tiles"),
        ('[{schedule = {kind = "iree"}, times = 1 : i64}]', "expected numbers"),
        ('[{schedule = {kind = "iree"}, times = 1.0 : f64, below_tiles = 8 : i64}]', "must increase"),
        ('[{schedule = {kind = "iree"}, times = 0.0 : f64}]', "positive sizes"),
    ],
)
def test_malformed_ranges_are_refused(text: str, wrong: str) -> None:
    with ir.Context(), ir.Location.unknown():
        operation = ir.Module.create().operation
        operation.attributes["winograd.schedule_ranges"] = ir.Attribute.parse(text)
        with pytest.raises(ValueError, match=wrong):
            schedule_ranges_of(operation)
