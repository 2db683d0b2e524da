"""The CPU's search space: what it offers can be computed, and what it predicts follows the machine."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.passes.infrastructure.algorithm import Algorithm
from iree.winograd.passes.match.convolutions.element_types import ElementTypes
from iree.winograd.passes.match.convolutions.problem import (
    ConvolutionProblem,
    MatmulProblem,
    WeightGradientProblem,
)
from iree.winograd.pipelines.backends.search_space import SearchSpace
from iree.winograd.pipelines.cpu.backend import CpuBackend
from iree.winograd.pipelines.cpu.choice.search_space import UNKNOWN_SIZE_TOLERANCE, CpuSearchSpace
from iree.winograd.pipelines.cpu.kernels.kernel_of import kernel_for
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.schedules.direct import DirectSchedule, staged_elements
from iree.winograd.pipelines.cpu.schedules.winograd import WinogradSchedule
from iree.winograd.pipelines.problems.schedule import Schedule
from iree.winograd.pipelines.selection.candidates import candidate_algorithms, convolution_shape
from iree.winograd.pipelines.selection.chooser import choose_predicted, choose_suiting
from iree.winograd.pipelines.selection.implementation import Implementation
from iree.winograd.pipelines.selection.prediction import (
    TIME_TOLERANCE,
    assigned_schedule,
    implementation_error,
    predict,
    predict_fastest,
    suiting_other_sizes,
)
from wide import wide

TARGET = CpuTarget.of("znver5", "+avx512f")
MACHINE = CpuBackend(TARGET).default_machine
DIRECT = Algorithm((1, 1), (1, 1))


def space(threads: int = 1) -> SearchSpace:
    return CpuSearchSpace(TARGET, MACHINE, threads)


def problem(size: int, channels: int, outputs: int, *, taps: int = 3, batch: int | None = 1, groups: int = 1):
    padding = (taps // 2, taps // 2)
    return ConvolutionProblem(
        batch, (size, size), padding, padding, (taps, taps), (1, 1), (1, 1), groups, channels, outputs
    )


def test_an_open_batch_is_chosen_for_the_images_that_are_expected() -> None:
    """Of 32 all threads have work whatever a block is, of one only with small blocks."""
    known = problem(14, 256, 256, batch=32)
    unknown = replace(known, batch=None)
    expected = replace(unknown, expected_batch=32)

    def chosen(convolution: ConvolutionProblem) -> Schedule:
        return space(8).default_schedule(convolution_shape(convolution, DIRECT))

    def seconds(convolution: ConvolutionProblem, schedule: Schedule) -> float:
        shape = convolution_shape(convolution, DIRECT)
        return sum(space(8).stage_seconds(shape, schedule).values())

    assert seconds(expected, chosen(expected)) == seconds(known, chosen(expected))
    assert seconds(known, chosen(expected)) < seconds(known, chosen(unknown))
    assert seconds(unknown, chosen(unknown)) < seconds(unknown, chosen(expected))
    assert expected.measured == known


@pytest.mark.parametrize("threads", [1, 8])
@pytest.mark.parametrize(
    "convolution",
    [problem(56, 64, 64), problem(7, 512, 512), problem(14, 100, 10), problem(28, 48, 48, groups=48)],
    ids=str,
)
def test_all_schedules_differ_and_keep_within_the_cache(convolution, threads):
    algorithms = [DIRECT] if convolution.groups > 1 else [DIRECT, Algorithm((4, 4), (3, 3))]
    for algorithm in algorithms:
        shape = convolution_shape(convolution, algorithm)
        schedules = list(space(threads).schedules(shape))
        assert schedules[0] == space(threads).default_schedule(shape)
        assert len(set(schedules)) == len(schedules) > 5
        for schedule in schedules:
            kernel_for(shape, TARGET, schedule)
            assert sum(space(threads).stage_seconds(shape, schedule).values()) > 0
            if isinstance(schedule, DirectSchedule):
                staged = staged_elements(shape, schedule.row_block, schedule.pixel_block)
                assert 4 * staged <= TARGET.l2_bytes
            if isinstance(schedule, WinogradSchedule):
                rows = shape.reduction if schedule.input_block is None else 0
                row = shape.transform_size * (rows + schedule.channel_block)
                assert 4 * schedule.tile_block * row <= TARGET.l2_bytes
                assert threads > 1 or schedule.channel_splits == 1


@pytest.mark.parametrize("threads", [1, 8])
@pytest.mark.parametrize("tile", [(4, 4), (5, 5)], ids=str)
@pytest.mark.parametrize(
    "convolution", [problem(14, 256, 256), problem(14, 512, 512), problem(27, 64, 192, taps=5)], ids=str
)
def test_shorter_sums_take_longer_and_are_more_accurate(convolution, tile, threads):
    algorithm = Algorithm(tile, convolution.kernel_size)
    shape, searched = convolution_shape(convolution, algorithm), space(threads)
    schedules = searched.default_schedules(shape)
    assert schedules[0] == searched.default_schedule(shape)
    # One that transforms filters in each call takes less memory: it may be slower and less accurate.
    schedules = [each for each in schedules if not getattr(each, "transforms_filters", False)]
    seconds = [sum(searched.stage_seconds(shape, each).values()) for each in schedules]
    errors = [implementation_error(convolution, Implementation(algorithm, each)) for each in schedules]
    assert seconds == sorted(seconds)
    assert errors == sorted(set(errors), reverse=True)
    for schedule in schedules:
        assert searched.misfit(shape, schedule) is None


def test_sums_are_shorter_only_where_the_default_ones_exceed_the_limit():
    """F(5x5) of 14x14x256 keeps 1e-6 by shorter sums alone, where blocks are added up in memory.

    Where none does, the most accurate are taken.
    """
    convolution, algorithm = problem(14, 256, 256), Algorithm((5, 5), (3, 3))
    searched = CpuBackend(CpuTarget.of("emeraldrapids", "+avx512f,+fma")).search_space()
    shape = convolution_shape(convolution, algorithm)
    default, shorter = searched.default_schedules(shape)
    assert implementation_error(convolution, Implementation(algorithm, default)) > 1e-6
    assert implementation_error(convolution, Implementation(algorithm, shorter)) <= 1e-6
    assert assigned_schedule(shape, searched, 1e-5) == default
    assert assigned_schedule(shape, searched, None) == shorter
    assert assigned_schedule(shape, searched, 1e-8) == shorter


@pytest.mark.parametrize(("cpu", "other"), [("znver4", "emeraldrapids"), ("emeraldrapids", "znver4")])
def test_a_processor_gains_nothing_from_the_register_block_of_another(cpu: str, other: str) -> None:
    """As predicted for it. Totals stay in registers where one vector of channels is as fast as two."""
    shape = convolution_shape(problem(56, 64, 64), Algorithm((4, 4), (3, 3)))
    own, foreign = (CpuBackend(CpuTarget.of(name, "+avx512f,+fma")).search_space() for name in (cpu, other))
    default, theirs = own.default_schedule(shape), foreign.default_schedule(shape)
    exchanged = replace(
        default,
        tile_block=theirs.tile_block,
        register_tiles=theirs.register_tiles,
        register_vectors=theirs.register_vectors,
        sum_registers=theirs.sum_registers,
    )
    assert own.misfit(shape, exchanged) is None
    seconds, others = (sum(own.stage_seconds(shape, each).values()) for each in (default, exchanged))
    assert seconds <= others


@pytest.mark.parametrize("cpu", ["znver4", "emeraldrapids"])
@pytest.mark.parametrize(("batch", "is_far"), [(8, True), (1, False)])
def test_images_are_fetched_only_where_they_exceed_l2(cpu: str, batch: int, is_far: bool) -> None:
    """Where they do, tuning may find that it gains, whatever the default does."""
    shape = convolution_shape(problem(56, 64, 64, batch=batch), Algorithm((4, 4), (3, 3)))
    searched = CpuBackend(CpuTarget.of(cpu, "+avx512f,+fma")).search_space()
    tuned = {schedule.image_prefetch for schedule in searched.schedules(shape)}
    assert tuned == ({None, 1} if is_far else {None})
    assert searched.default_schedule(shape).image_prefetch in tuned


def best(convolution: ConvolutionProblem, searched: SearchSpace) -> Algorithm:
    return min(
        predict(convolution, searched), key=lambda each: each.predicted_seconds
    ).implementation.algorithm


def test_slow_memory_makes_tiles_smaller():
    """Large tiles multiply less, but read larger filters."""
    convolution = problem(14, 512, 512)
    fast = CpuSearchSpace(TARGET, replace(MACHINE, memory_bandwidth=1e12))
    slow = CpuSearchSpace(TARGET, replace(MACHINE, memory_bandwidth=2e9))
    assert max(best(convolution, slow).output_tile) < max(best(convolution, fast).output_tile)


def test_more_threads_take_less_time():
    shape = convolution_shape(problem(56, 128, 128), Algorithm((4, 4), (3, 3)))
    seconds = [
        sum(space(threads).stage_seconds(shape, space(threads).default_schedule(shape)).values())
        for threads in (1, 2, 4, 8)
    ]
    assert seconds == sorted(seconds, reverse=True)
    assert seconds[0] > 4 * seconds[-1]


def test_a_matrix_beyond_a_cores_caches_is_read_anew_for_each_tile_of_rows():
    """By IREE's own code. One that fits takes as long as its operations."""
    space = CpuBackend(CpuTarget.of("emeraldrapids", "+avx512f,+fma")).search_space()
    bandwidth = space.machine.caches[-1].bandwidth
    small, large = (MatmulProblem.multiplying((1, 200), 768, columns) for columns in (192, 768))
    products = [space.iree_stage_seconds(each)["products"] for each in (small, large)]
    assert products[1] == pytest.approx(200 / 8 * 4 * 768 * 768 / bandwidth)
    assert products[1] > 4 * products[0]


def test_twice_the_images_take_about_twice_the_time():
    one, two = (
        min(each.predicted_seconds for each in predict(problem(56, 64, 64, batch=batch), space()))
        for batch in (8, 16)
    )
    assert 1.9 < two / one < 2.1


def test_schedules_of_other_kernels_are_refused():
    shape = convolution_shape(problem(56, 64, 64), DIRECT)
    other = convolution_shape(problem(56, 64, 64), Algorithm((4, 4), (3, 3)))
    with pytest.raises(ValueError, match="is no schedule for this convolution"):
        kernel_for(shape, TARGET, space().default_schedule(other))


@pytest.mark.parametrize("threads", [1, 3])
def test_sums_over_the_tiles_of_many_images_are_short(threads):
    """One after the other, sums over their blocks would round more than what is within a block."""
    images = problem(56, 64, 64, batch=32)
    gradient = WeightGradientProblem(**{each.name: getattr(images, each.name) for each in fields(images)})
    shape = convolution_shape(gradient, Algorithm((4, 4), (3, 3)))
    schedules = list(space(threads).schedules(shape))
    sliced = [each for each in schedules if each.tile_slices is not None]
    assert sliced and schedules[0] in sliced
    for schedule in sliced:
        blocks = ceil_div(shape.tiles, schedule.tile_block)
        assert ceil_div(blocks, schedule.tile_slices) <= 64


@pytest.mark.parametrize(
    "convolution", [problem(56, 64, 64), problem(13, 256, 384), problem(27, 96, 256, taps=5)], ids=str
)
@pytest.mark.parametrize("threads", [1, 16])
def test_algorithms_that_are_not_predicted_would_not_be_faster(convolution, threads):
    searched = space(threads)
    predicted = {each.implementation.algorithm for each in predict(convolution, searched)}
    allowed = set(candidate_algorithms(convolution))
    assert predicted < allowed and len(predicted) <= len(allowed) / 2

    def seconds(algorithm: Algorithm) -> float:
        shape = convolution_shape(convolution, algorithm)
        return sum(searched.stage_seconds(shape, searched.default_schedule(shape)).values())

    assert min(map(seconds, predicted)) <= min(map(seconds, allowed - predicted))


@pytest.mark.parametrize("threads", [1, 16, *wide([2, 200])])
@pytest.mark.parametrize("cpu", [("znver4", "+avx512f,+fma"), ("haswell", "+avx2,+fma"), ("", "")], ids=str)
@pytest.mark.parametrize(
    "convolution",
    [
        problem(56, 64, 64),
        problem(7, 512, 512, batch=8),
        problem(14, 100, 10),
        problem(28, 64, 128, groups=4),
        replace(problem(27, 96, 256, taps=5), input_channels_first=True, output_channels_first=True),
        replace(problem(14, 256, 256), runtime_filter=True),
        replace(problem(28, 32, 32), batch=None),
        replace(problem(28, 64, 64, taps=7), strides=(2, 2)),
    ],
    ids=str,
)
def test_no_default_schedule_takes_less_than_the_least(convolution, cpu, threads):
    searched = CpuBackend(CpuTarget.of(*cpu)).search_space(threads=threads)
    candidates = predict(convolution, searched)
    assert candidates
    for each in candidates:
        shape = convolution_shape(convolution, each.implementation.algorithm)
        assert searched.least_seconds(shape) <= each.predicted_seconds


def test_algorithms_that_would_take_longer_are_not_looked_at():
    """Those that are may be among those that a choice gives for accuracy."""
    convolution = problem(14, 256, 256)
    searched = CpuBackend(CpuTarget.of("znver4", "+avx512f,+fma")).search_space()
    candidates = predict(convolution, searched)
    fastest = predict_fastest(convolution, searched, 1e-6)
    assert len(fastest) <= len(candidates) / 2
    assert [each for each in candidates if each in fastest] == list(fastest)
    least = min(each.predicted_seconds for each in candidates if each.keeps(1e-6))
    tolerated = [each for each in candidates if each.predicted_seconds <= (1 + TIME_TOLERANCE) * least]
    assert set(map(str, tolerated)) <= set(map(str, fastest))


def test_tiles_of_unknown_sizes_suit_images_of_half_the_size_too():
    """Of 24x20 pixels in tiles of 4x4 and 4x5 there are as many multiplications, of 12x10 in 9 and in 6."""
    searched = CpuBackend(CpuTarget.of("znver3", "+avx2,+fma")).search_space()
    known = replace(problem(24, 64, 32), input_size=(24, 20))
    unknown = replace(known, unknown_sizes=(0, 1))

    def seconds(algorithm, convolution):
        shape = convolution_shape(convolution, algorithm)
        return sum(searched.stage_seconds(shape, searched.default_schedule(shape)).values())

    candidates = [each for each in predict_fastest(unknown, searched, 1e-6) if each.keeps(1e-6)]
    at_expected = choose_predicted(candidates, TIME_TOLERANCE)[0].implementation.algorithm
    chosen, reason = choose_suiting(unknown, searched, candidates)
    found = chosen.implementation.algorithm
    assert reason == "it is predicted to be the fastest that is accurate enough"
    half = unknown.resized(0.5)
    assert half.input_size == (12, 10)
    assert seconds(found, half) < 0.8 * seconds(at_expected, half)
    assert seconds(found, unknown) < 1.06 * seconds(at_expected, unknown)
    candidates = [each for each in predict_fastest(known, searched, 1e-6) if each.keeps(1e-6)]
    assert suiting_other_sizes(known, searched, candidates) == candidates
    assert choose_suiting(known, searched, candidates) == choose_predicted(candidates, TIME_TOLERANCE)


def test_what_suits_other_sizes_is_not_said_to_be_the_fastest():
    searched = CpuBackend(CpuTarget.of("znver3", "+avx2,+fma")).search_space()
    unknown = replace(problem(12, 64, 32), unknown_sizes=(0, 1))
    candidates = [each for each in predict_fastest(unknown, searched, 1e-6) if each.keeps(1e-6)]
    fastest = min(candidates, key=lambda each: each.predicted_seconds)
    chosen, reason = choose_suiting(unknown, searched, candidates)
    assert 1 < chosen.predicted_seconds / fastest.predicted_seconds <= 1 + UNKNOWN_SIZE_TOLERANCE
    assert reason.startswith(
        f"it is predicted to take about as long as {fastest.implementation.algorithm}, and less"
    )


def test_images_of_other_sizes_have_an_output():
    dilated = replace(problem(16, 4, 4), dilations=(6, 6), unknown_sizes=(1,))
    assert dilated.resized(0.25).input_size == (16, 11)
    assert dilated.resized(4.0).input_size == (16, 64)


@pytest.mark.parametrize("threads", [1, 8])
@pytest.mark.parametrize(
    "convolution",
    [
        problem(56, 64, 64, batch=None),
        replace(problem(14, 48, 10, batch=None), input_channels_first=True),
        problem(28, 48, 48, groups=48, batch=None),
        WeightGradientProblem(None, (9, 9), (1, 1), (1, 1), (3, 3), (1, 1), (1, 1), 1, 20, 24),
        WeightGradientProblem(None, (9, 9), (1, 1), (1, 1), (3, 3), (1, 1), (1, 1), 24, 24, 24),
    ],
    ids=str,
)
def test_a_dynamic_batch_is_predicted_as_a_representative_one(convolution, threads):
    searched = space(threads)
    for algorithm in [DIRECT] if convolution.groups > 1 else [DIRECT, Algorithm((4, 4), (3, 3))]:
        shape = convolution_shape(convolution, algorithm)
        known = shape.with_batch(searched.dynamic_batch)
        for schedule in searched.schedules(shape):
            assert searched.stage_seconds(shape, schedule) == searched.stage_seconds(known, schedule)
        assert searched.least_seconds(shape) == searched.least_seconds(known)
        assert searched.far_image_seconds(shape) == searched.far_image_seconds(known)


@pytest.mark.parametrize("types", ["bf16*bf16+f32=bf16", "i8", "f64", "f16"])
def test_no_kernel_takes_types_that_it_does_not_know(types):
    """Whatever the schedule: a depthwise one, too."""
    searched = space()
    gradient = WeightGradientProblem(1, (9, 9), (1, 1), (1, 1), (3, 3), (1, 1), (1, 1), 1, 20, 24)
    depthwise_gradient = replace(gradient, groups=24, input_channels=24)
    for known in (problem(28, 48, 48), problem(28, 48, 48, groups=48), gradient, depthwise_gradient):
        other = replace(known, element_types=ElementTypes.parse(types))
        assert "element types" in (searched.problem_misfit(other) or "")
        shape = convolution_shape(known, DIRECT)
        for schedule in searched.schedules(shape):
            assert searched.misfit(shape, schedule) is None
            assert "element types" in searched.misfit(convolution_shape(other, DIRECT), schedule)
