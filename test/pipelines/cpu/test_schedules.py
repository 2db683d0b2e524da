"""Default schedules: within the memory and the registers of their target, whatever the shape."""

from __future__ import annotations

from itertools import product
from math import prod

import pytest
from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.decomposition import decompose
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.cpu.backend import CpuBackend
from iree.winograd.pipelines.cpu.choice.search_space import CpuSearchSpace
from iree.winograd.pipelines.cpu.processor.product import RegisterBlock
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.schedules.channel_blocks import ChannelBlocks
from iree.winograd.pipelines.cpu.schedules.depthwise import DepthwiseSchedule
from iree.winograd.pipelines.cpu.schedules.direct import DirectSchedule, staged_elements
from iree.winograd.pipelines.cpu.schedules.winograd import WinogradSchedule
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.problems.shape import ConvolutionShape
from iree.winograd.pipelines.selection.candidates import convolution_shape, direct_algorithm
from iree.winograd.pipelines.selection.prediction import predict
from wide import wide_combinations

TARGETS = [
    CpuTarget.of("znver5", "+avx2,+fma,+avx512f"),
    CpuTarget.of("unknown", "+avx2,+fma,+avx512f"),
    CpuTarget.of("haswell", "+avx2,+fma"),
    CpuTarget.of("x86-64", ""),
]
THREADS = (1, 8)
CHANNELS = [(1, 1), (3, 64), (64, 64), (100, 10), (512, 512), (2048, 2048)]


def shape(batch: int | None, size: int, channels: int, outputs: int, m: int) -> ConvolutionShape:
    decomposition = decompose((3, 3), (m, m), part_size=(1, 1) if m == 1 else (3, 3))
    problem = ConvolutionProblem(
        batch, (size, size), (1, 1), (1, 1), (3, 3), (1, 1), (1, 1), 1, channels, outputs
    )
    return ConvolutionShape.decomposed(problem, decomposition)


def default_winograd_schedule(shape: ConvolutionShape, target: CpuTarget, threads: int) -> WinogradSchedule:
    schedule = CpuBackend(target).search_space(None, threads).default_schedule(shape)
    assert isinstance(schedule, WinogradSchedule)
    return schedule


def default_direct_schedule(shape: ConvolutionShape, target: CpuTarget, threads: int) -> DirectSchedule:
    schedule = CpuBackend(target).search_space(None, threads).default_schedule(shape)
    assert isinstance(schedule, DirectSchedule)
    return schedule


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: f"{target.vector_width}-{target.l2_bytes}")
@pytest.mark.parametrize("m", [2, 4, 6, 8])
def test_winograd_workgroup_memory_fits_in_l2(target: CpuTarget, m: int) -> None:
    for batch, size, (channels, outputs), threads in product((1, 8), (1, 7, 14, 56, 224), CHANNELS, THREADS):
        convolution = shape(batch, size, channels, outputs, m)
        schedule = default_winograd_schedule(convolution, target, threads)
        elements = convolution.transform_size
        products = elements * schedule.tile_block * schedule.channel_block
        tiles = 0
        if schedule.input_block is None:
            tiles = schedule.tile_block * elements * (convolution.reduction + 16)
        between_passes = elements * target.vector_width
        assert 4 * (products + tiles + between_passes) <= target.l2_bytes
        assert schedule.tile_block % schedule.register_tiles == 0


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: f"{target.vector_width}-{target.l2_bytes}")
def test_direct_workgroup_memory_fits_in_l2(target: CpuTarget) -> None:
    for batch, size, (channels, outputs), threads in product(
        (1, None), (1, 7, 14, 56, 224), CHANNELS, THREADS
    ):
        convolution = shape(batch, size, channels, outputs, 1)
        schedule = default_direct_schedule(convolution, target, threads)
        staged = staged_elements(convolution, schedule.row_block, schedule.pixel_block)
        assert 4 * staged <= target.l2_bytes
        assert schedule.register_pixels <= schedule.pixel_block <= size


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: f"{target.vector_width}-{target.l2_bytes}")
def test_register_blocks_fit_in_registers(target: CpuTarget) -> None:
    for size, (channels, outputs) in product((7, 14, 56), CHANNELS):
        winograd = default_winograd_schedule(shape(1, size, channels, outputs, 4), target, 1)
        sums = winograd.register_tiles * winograd.register_vectors
        assert sums + winograd.register_vectors + 1 <= target.vector_registers
        direct = default_direct_schedule(shape(1, size, channels, outputs, 1), target, 1)
        sums = direct.register_pixels * direct.register_vectors
        assert sums + direct.register_vectors + 1 <= target.vector_registers


def test_a_schedule_rejects_sizes_that_are_not_positive() -> None:
    with pytest.raises(ValueError, match="tile_block must be at least 1, not 0"):
        WinogradSchedule(16, 0, 1, 1, 16)


def test_channel_blocks_cover_all_channels_within_their_groups() -> None:
    for channels, groups, size in [(64, 1, 32), (100, 1, 32), (48, 3, 8), (30, 3, 8), (7, 1, 7)]:
        blocks = ChannelBlocks(channels, groups, size)
        covered = set()
        for number in range(blocks.count):
            first, group = blocks.first(Index(number)).known, blocks.group(Index(number)).known
            assert first is not None and group is not None
            assert group * blocks.per_group <= first
            assert first + size <= (group + 1) * blocks.per_group
            covered.update(range(first, first + size))
        assert covered == set(range(channels))
    for count, parts in [(33, 8), (33, 3), (6, 4), (4, 4), (1, 1)]:
        blocks = ChannelBlocks(count, 1, 1)
        numbers = []
        for part in range(parts):
            steps = blocks.steps(Index(part), parts).known
            assert steps is not None
            numbers += [blocks.at(Index(part), parts, Index(step)).known for step in range(steps)]
        assert numbers == list(range(count))
    with pytest.raises(ValueError, match="blocks of 8 channels don't fit in groups of 4"):
        ChannelBlocks(16, 4, 8)


@pytest.mark.parametrize(
    ("target", "batch"),
    [*zip(TARGETS[1:3], (1, None), strict=True), *wide_combinations([(TARGETS[0], 1), (TARGETS[3], None)])],
)
def test_kernels_compute_large_convolutions_by_what_is_predicted_for_them(
    target: CpuTarget, batch: int | None
) -> None:
    space = CpuSearchSpace(target, CpuBackend(target).default_machine)
    for size, kernel, channels, groups in product(
        ((7, 7), (2, 15)), ((3, 3), (7, 7), (1, 5)), (64, 1024, 8192), (1, 2, 64)
    ):
        problem = ConvolutionProblem(
            batch, size, (3, 3), (3, 3), kernel, (1, 1), (1, 1), groups, channels, channels
        )
        for candidate in predict(problem, space):
            implementation = candidate.implementation
            convolution = convolution_shape(problem, implementation.algorithm)
            assert space.misfit(convolution, implementation.schedule) is None


@pytest.mark.parametrize("size", [(7, 7), (14, 14), (19, 19), (37, 37), (3, 5, 7)])
def test_register_blocks_of_pointwise_convolutions_run_over_the_ends_of_rows(size: tuple[int, ...]) -> None:
    """Rows of 7 or 19 pixels would leave a part of the registers, or of a block, empty."""
    one, none = (1,) * len(size), (0,) * len(size)
    problem = ConvolutionProblem(1, size, none, none, one, one, one, 1, 256, 256)
    space = CpuSearchSpace(TARGETS[0], CpuBackend(TARGETS[0]).default_machine)
    schedule = space.default_schedule(convolution_shape(problem, direct_algorithm(problem)))
    assert isinstance(schedule, DirectSchedule)
    blocks = ceil_div(prod(size), schedule.pixel_block)
    computed = blocks * ceil_div(schedule.pixel_block, schedule.register_pixels) * schedule.register_pixels
    assert computed <= 1.1 * prod(size)


@pytest.mark.parametrize(("processor", "block"), [("emeraldrapids", (14, 2)), ("znver4", (28, 1))])
def test_register_blocks_are_those_that_the_processor_is_fastest_by(
    processor: str, block: tuple[int, int]
) -> None:
    """Of 7 vectors of channels pairs leave one out, which one multiply-add a cycle waits for; two would wait
    for the loads of single ones."""
    one, none = (1, 1), (0, 0)
    problem = ConvolutionProblem(1, (14, 14), none, none, one, one, one, 1, 480, 112)
    target = CpuTarget.of(processor, "+avx2,+fma,+avx512f")
    schedule = default_direct_schedule(convolution_shape(problem, direct_algorithm(problem)), target, 1)
    assert (schedule.register_pixels, schedule.register_vectors) == block


def test_large_outputs_are_written_in_one_pass_over_the_pixels() -> None:
    """Those of 112x112x96 exceed L2, those of 28x28x96 don't."""
    one, none = (1, 1), (0, 0)
    passes = []
    for size in (112, 28):
        problem = ConvolutionProblem(1, (size, size), none, none, one, one, one, 1, 16, 96)
        shape = convolution_shape(problem, direct_algorithm(problem))
        passes.append(ceil_div(96, default_direct_schedule(shape, TARGETS[0], 1).channel_block))
    assert passes == [1, 3]


@pytest.mark.parametrize(
    ("size", "unknown_sizes", "vectors"),
    [((96, 80), (), 4), ((96, 80), (0, 1), 8), ((192, 160), (), 8), ((24, 20), (0, 1), 4)],
)
def test_depthwise_images_that_may_come_from_far_are_read_in_one_pass(
    size: tuple[int, int], unknown_sizes: tuple[int, ...], vectors: int
) -> None:
    """Of 64 channels 96x80 pixels are 1.9 times L2, and may be 7.5 times where their size isn't known."""
    one = (1, 1)
    target = CpuTarget.of("znver4", "+avx2,+fma")
    problem = ConvolutionProblem(1, size, one, one, (3, 3), one, one, 64, 64, 64, unknown_sizes=unknown_sizes)
    space = CpuSearchSpace(target, CpuBackend(target).default_machine)
    schedule = space.default_schedule(convolution_shape(problem, direct_algorithm(problem)))
    assert isinstance(schedule, DepthwiseSchedule)
    assert schedule.vectors_per_pass == vectors
    assert (schedule.image_prefetch is not None) == (vectors == 8)


@pytest.mark.parametrize(("cpu", "features"), [("znver4", "+avx2,+fma,+avx512f"), ("haswell", "+avx2,+fma")])
def test_depthwise_rows_are_fetched_ahead_only_where_that_was_measured_to_gain(
    cpu: str, features: str
) -> None:
    target = CpuTarget.of(cpu, features)
    one = (1, 1)
    problem = ConvolutionProblem(1, (192, 160), one, one, (3, 3), one, one, 64, 64, 64)
    space = CpuSearchSpace(target, CpuBackend(target).default_machine)
    schedule = space.default_schedule(convolution_shape(problem, direct_algorithm(problem)))
    assert isinstance(schedule, DepthwiseSchedule)
    assert schedule.image_prefetch is None


@pytest.mark.parametrize(("pixels", "channels"), [(49, 3072), (257, 1536), (50, 3072), (35, 4608)])
def test_blocks_of_a_row_that_l2_limits_have_few_pixels_in_common(pixels: int, channels: int) -> None:
    target = CpuTarget.of("znver3", "+avx2,+fma")
    one, none = (1, 1), (0, 0)
    problem = ConvolutionProblem(1, (1, pixels), none, none, one, one, one, 1, channels, 768)
    convolution = convolution_shape(problem, direct_algorithm(problem))
    schedule = default_direct_schedule(convolution, target, 1)
    assert 4 * staged_elements(convolution, 1, pixels) > target.l2_bytes
    computed = ceil_div(pixels, schedule.pixel_block) * schedule.pixel_block
    assert computed < 1.2 * pixels


def test_copies_of_few_channels_count_as_large_as_they_are() -> None:
    """Columns of the copy lie apart for taps in one column alone: sixteen elements beside three are many."""
    convolution = shape(1, 224, 3, 64, 1)
    assert staged_elements(convolution, 1, 224) == 3 * 226 * 3
    across = ConvolutionProblem(1, (9, 9), (1, 0), (1, 0), (3, 1), (1, 1), (1, 1), 1, 3, 64)
    apart = convolution_shape(across, direct_algorithm(across))
    assert staged_elements(apart, 1, 9) == 3 * 9 * (3 + 16)


def test_register_blocks_of_enough_rows_fetch_all_of_the_next_filters() -> None:
    for width, vectors in product((4, 8, 16), (1, 2, 3)):
        block = RegisterBlock(rows=4, vectors=vectors, width=width, filter_prefetch=96)
        assert block.filters_ahead(1) == 0, "it has no time to do so"
        assert all(count * block.filters_ahead(count) >= block.channels for count in range(2, 40))
        alone = RegisterBlock(rows=8, vectors=vectors, width=width, filter_prefetch=96)
        assert alone.filters_ahead(1) == alone.channels


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: f"{target.vector_width}-{target.l2_bytes}")
def test_images_are_fetched_ahead_by_vectors_of_whole_cache_lines(target: CpuTarget) -> None:
    schedule = default_direct_schedule(shape(1, 56, 64, 64, 1), target, 1)
    assert (schedule.image_prefetch is not None) == (target.vector_width == 16)
