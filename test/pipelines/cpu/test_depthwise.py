"""The depthwise kernel against float64, within the a-priori error bound of direct convolution."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest
from checked_programs import check_together
from convolution_program import Program
from host import HOST
from iree.winograd.dialect.decomposition import decompose
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.cpu.backend import CpuBackend
from iree.winograd.pipelines.cpu.choice.default_schedule import fastest_by_kernel
from iree.winograd.pipelines.cpu.choice.search_space import CpuSearchSpace
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.schedules.depthwise import DepthwiseSchedule, is_depthwise, shares_pixels
from iree.winograd.pipelines.problems.shape import ConvolutionShape
from wide import batches

AVX512 = CpuTarget.of("znver5", "+avx2,+fma,+avx512f")
TARGETS = [AVX512, CpuTarget.of("haswell", "+avx2,+fma"), CpuTarget.of("x86-64", "")]


def depthwise(
    size: tuple[int, ...],
    groups: int,
    kernel: tuple[int, ...],
    inputs: int = 1,
    outputs: int = 1,
    **rest: object,
) -> Program:
    """`inputs` and `outputs` are the channels of one group."""
    single = (1,) * len(size)
    return Program(size, groups * inputs, groups * outputs, kernel, single, single, groups=groups, **rest)


def random_programs(count: int) -> Iterator[Program]:
    generator = random.Random(1)
    while count:
        rank = generator.choice([1, 2, 2, 2, 3])

        def sizes(low: int, high: int, rank: int = rank) -> tuple[int, ...]:
            return tuple(generator.randint(low, high) for _ in range(rank))

        inputs, outputs = generator.choice([(1, 1), (1, 1), (1, 2), (2, 1), (2, 2), (3, 4), (4, 4), (8, 8)])
        program = depthwise(
            sizes(1, {1: 60, 2: 21, 3: 7}[rank]),
            generator.randint(2, 70 // max(inputs, outputs)),
            sizes(1, {1: 9, 2: 5, 3: 3}[rank]),
            inputs,
            outputs,
            batch=generator.randint(1, 3),
            strides=sizes(1, 3),
            dilations=sizes(1, 3),
            low=sizes(0, 3),
            high=sizes(0, 3),
            dynamic_batch=generator.choice([False, True]),
        )
        if min(program.output_size) >= 1 and is_depthwise(shape_of(program), AVX512):
            yield program
            count -= 1


def shape_of(program: Program) -> ConvolutionShape:
    decomposition = decompose(
        program.kernel,
        program.m,
        strides=program.strides,
        dilations=program.dilations,
        part_size=program.p,
    )
    problem = ConvolutionProblem(
        None if program.dynamic_batch else program.batch,
        program.size,
        program.per_dimension("low", 0),
        program.per_dimension("high", 0),
        program.kernel,
        program.per_dimension("strides", 1),
        program.per_dimension("dilations", 1),
        program.groups,
        program.channels,
        program.outputs,
    )
    return ConvolutionShape.decomposed(problem, decomposition)


SAME = {"low": (1, 1), "high": (1, 1)}
NETWORK_LAYERS = [
    depthwise((14, 14), 96, (3, 3), **SAME),
    depthwise((14, 15), 40, (3, 3), strides=(2, 2), **SAME),
    depthwise((7, 7), 72, (5, 5), low=(2, 2), high=(2, 2)),
    depthwise((28, 28), 32, (7, 7), low=(3, 3), high=(3, 3)),
    depthwise((14, 14), 32, (3, 3), 2, 2, **SAME),
    depthwise((14, 14), 32, (3, 3), 4, 4, strides=(2, 2), **SAME),
    depthwise((9, 9), 6, (3, 3), 8, 8, **SAME),
]
CHANNELS = [depthwise((6, 19), groups, (3, 3), **SAME) for groups in (2, 3, 8, 17, 31, 70)]
LONG_ROWS_OF_TAPS = [
    depthwise((200,), 20, (129,), low=(64,), high=(64,)),
    depthwise((90,), 4, (65,), 2, 2, strides=(2,), dilations=(2,), low=(70,), high=(63,)),
    depthwise((5, 30), 17, (3, 101), low=(1, 50), high=(1, 50)),
]
PADDING = [
    # Outputs without any tap inside of the image, and none that has all taps inside.
    depthwise((3, 3), 16, (3, 3), low=(5, 4), high=(4, 6)),
    depthwise((4, 5), 16, (5, 5), dilations=(3, 3), low=(6, 6), high=(6, 6)),
]
RANDOM = list(random_programs(8))
PARALLEL = [
    depthwise((64, 65), 64, (5, 5), low=(2, 2), high=(2, 2)),
    depthwise((1500,), 200, (9,), low=(4,), high=(4,), dynamic_batch=True, batch=2),
]


@pytest.mark.parametrize(
    "programs",
    batches(
        [*NETWORK_LAYERS, *CHANNELS, *LONG_ROWS_OF_TAPS, *PADDING, *RANDOM],
        [NETWORK_LAYERS[1], *CHANNELS[1::3], LONG_ROWS_OF_TAPS[1], *PADDING, *RANDOM[:2]],
    ),
)
def test_agrees_with_float64(programs: list[Program]) -> None:
    assert all(is_depthwise(shape_of(program), AVX512) for program in programs)
    check_together(programs)


COPIED = [
    (depthwise((200,), 20, (129,), low=(64,), high=(64,)), 1),
    (depthwise((41,), 35, (5,), strides=(2,), dilations=(3,), low=(1,), high=(9,), batch=2), 1),
    (depthwise((14, 15), 40, (3, 5), strides=(2, 1), low=(1, 2), high=(1, 2)), 2),
    (depthwise((3, 3), 16, (3, 3), low=(5, 4), high=(4, 6)), 4),
    (depthwise((9, 7), 33, (5, 3), dilations=(2, 1), low=(0, 1), dynamic_batch=True, batch=2), 1),
]


@pytest.mark.this_machine
@pytest.mark.wide
def test_agrees_with_float64_where_the_input_is_copied() -> None:
    space = CpuSearchSpace(HOST, CpuBackend(HOST).default_machine, threads=1)

    def copied(program: Program, rows: int) -> Program:
        default = space.default_schedule(shape_of(program))
        assert isinstance(default, DepthwiseSchedule)
        return replace(program, schedule=replace(default, copied_rows=rows, image_prefetch=None))

    check_together([copied(*case) for case in COPIED])


FETCHING = [
    depthwise((9, 21), 40, (3, 3), **SAME),
    depthwise((11, 30), 24, (5, 3), strides=(2, 3), low=(2, 1), high=(2, 1), batch=2),
    depthwise((12, 12), 16, (3, 3), strides=(3, 1), dilations=(2, 2), low=(2, 2), high=(2, 2)),
    depthwise((5, 12), 8, (2, 3), 2, 2, low=(0, 1), high=(1, 1)),
]


def test_agrees_with_float64_where_rows_are_fetched_ahead() -> None:
    """Of a row that is read for the first time, as many for each row of outputs as rows are strided."""

    def fetching(program: Program, blocks: int) -> Program:
        schedule = DepthwiseSchedule(8, 5, 4, 5, image_prefetch=blocks)
        return replace(program, schedule=schedule)

    check_together([fetching(program, blocks) for program in FETCHING for blocks in (1, 4)])


def dense(
    size: tuple[int, ...], inputs: int, outputs: int, kernel: tuple[int, ...], **rest: object
) -> Program:
    single = (1,) * len(size)
    return Program(size, inputs, outputs, kernel, single, single, **rest)


def random_dense_programs(count: int) -> Iterator[Program]:
    generator = random.Random(2)
    while count:
        rank = generator.choice([1, 2, 2, 3])

        def sizes(low: int, high: int, rank: int = rank) -> tuple[int, ...]:
            return tuple(generator.randint(low, high) for _ in range(rank))

        program = dense(
            sizes(1, {1: 60, 2: 21, 3: 7}[rank]),
            generator.randint(1, 9),
            generator.choice([4, 8, 16]),
            sizes(2, {1: 9, 2: 5, 3: 3}[rank]),
            batch=generator.randint(1, 2),
            strides=sizes(1, 3),
            dilations=sizes(1, 2),
            low=sizes(0, 3),
            high=sizes(0, 3),
            dynamic_batch=generator.choice([False, True]),
        )
        if min(program.output_size) >= 1 and shares_pixels(shape_of(program), HOST):
            yield program
            count -= 1


LANES = HOST.vector_width
FIRST_LAYERS = [
    dense((8, 30, 30), 3, LANES, (3, 7, 7), strides=(1, 2, 2), low=(1, 3, 3), high=(1, 3, 3)),
    dense((65, 64), 3, LANES, (3, 3), strides=(2, 2), low=(0, 1), high=(1, 0)),
    dense((100,), 1, LANES // 2, (16,), strides=(5,), low=(15,), high=(15,), batch=2),
]
SHARED = [
    *FIRST_LAYERS,
    # No output has all taps inside, and registers don't hold the filters of a row of taps.
    dense((3, 5), 20, LANES, (3, 16), low=(1, 15), high=(1, 15)),
    *random_dense_programs(6),
]
SHARED += [replace(each, input_channels_first=True) for each in SHARED]


def by_depthwise_kernel(program: Program, target: CpuTarget, threads: int = 1) -> Program:
    machine = CpuBackend(target).default_machine
    schedules = fastest_by_kernel(shape_of(program), target, machine, threads)
    (schedule,) = (each for each in schedules if isinstance(each, DepthwiseSchedule))
    return replace(program, schedule=schedule)


@pytest.mark.this_machine
@pytest.mark.parametrize("programs", batches(SHARED, [FIRST_LAYERS[0], SHARED[3]]))
def test_channels_of_one_vector_agree_with_float64(programs: list[Program]) -> None:
    check_together([by_depthwise_kernel(program, HOST) for program in programs])


@pytest.mark.this_machine
@pytest.mark.parametrize("cpu", ["x86-64", "haswell"])
@pytest.mark.wide
def test_channels_of_one_vector_agree_with_float64_on_lesser_targets(cpu: str) -> None:
    target = CpuTarget.of(cpu, "+avx2,+fma" if cpu == "haswell" else "")
    outputs = target.vector_width
    program = dense((20, 21), 3, outputs, (3, 7), strides=(1, 2), low=(1, 3), high=(1, 3))
    by_depthwise_kernel(program, target).check(flags=[f"--iree-llvmcpu-target-cpu={cpu}"])


@pytest.mark.this_machine
@pytest.mark.wide
def test_channels_of_one_vector_have_filters_known_only_at_run_time() -> None:
    program = by_depthwise_kernel(FIRST_LAYERS[1], HOST)
    replace(program, constant_filter=False).check()


@pytest.mark.this_machine
def test_channels_of_one_vector_are_computed_in_parallel() -> None:
    program = by_depthwise_kernel(FIRST_LAYERS[0], HOST, threads=4)
    assert isinstance(program.schedule, DepthwiseSchedule)
    assert program.schedule.row_block < shape_of(program).output_rows
    program.check(device="local-task")


def test_pixels_are_shared_where_that_takes_less() -> None:
    """By one vector of channels and several taps of a row, all of which reach the image."""
    layer = replace(FIRST_LAYERS[0], outputs=AVX512.vector_width)
    for program, is_shared in (
        (layer, True),
        (replace(layer, outputs=32), False),
        (replace(layer, outputs=12), False),
        (replace(layer, kernel=(3, 7, 1), low=(1, 3, 0), high=(1, 3, 0)), False),
        (replace(layer, low=(1, 3, 7)), False),
    ):
        schedule = CpuBackend(AVX512).search_space().default_schedule(shape_of(program))
        assert isinstance(schedule, DepthwiseSchedule) == is_shared


def test_pixels_that_share_sets_of_the_cache_are_copied() -> None:
    for channels, taps, copied in ((512, 75, 1), (256, 39, 1), (500, 75, None), (512, 9, None)):
        program = depthwise((320,), channels, (taps,), low=(taps // 2,), high=(taps // 2,))
        schedule = CpuBackend(AVX512).search_space().default_schedule(shape_of(program))
        assert isinstance(schedule, DepthwiseSchedule)
        assert schedule.copied_rows == copied


@pytest.mark.parametrize("cpu", ["x86-64", "haswell"])
@pytest.mark.wide
def test_agrees_with_float64_on_lesser_targets(cpu: str) -> None:
    programs = [NETWORK_LAYERS[4], CHANNELS[3]]
    check_together(programs, flags=[f"--iree-llvmcpu-target-cpu={cpu}"])


def test_packs_filters_known_only_at_run_time() -> None:
    programs = NETWORK_LAYERS[1], NETWORK_LAYERS[5], CHANNELS[4]
    check_together([replace(program, constant_filter=False) for program in programs])


def test_workgroups_run_in_parallel() -> None:
    space = CpuSearchSpace(AVX512, CpuBackend(AVX512).default_machine, threads=4)
    for program in PARALLEL:
        schedule = space.default_schedule(shape_of(program))
        assert isinstance(schedule, DepthwiseSchedule)
        assert schedule.row_block < program.size[0] or schedule.channel_splits > 1
    check_together(PARALLEL, devices=["local-task"])


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: f"{target.vector_width}-lanes")
def test_default_schedules_cover_rows_with_full_blocks_of_pixels(target: CpuTarget) -> None:
    for size, groups, taps, threads in product((1, 7, 14, 56, 113), (2, 32, 960), (1, 3, 31), (1, 4)):
        padding = (taps // 2, taps // 2)
        program = depthwise((size, size), groups, (taps, taps), low=padding, high=padding)
        space = CpuSearchSpace(target, CpuBackend(target).default_machine, threads)
        schedule = space.default_schedule(shape_of(program))
        assert isinstance(schedule, DepthwiseSchedule)
        pixels = schedule.register_pixels
        assert pixels <= min(size, target.vector_registers)
        assert pixels == size or pixels >= 4, "few sums wait for each other"
