"""CPU kernels against float64, within the a-priori error bound of their algorithm."""

from __future__ import annotations

from dataclasses import replace

import pytest
from checked_programs import check_together
from convolution_program import Program
from iree.winograd.pipelines.cpu.schedules.winograd import WinogradSchedule
from wide import batches, wide

WINOGRAD = [Program((14, 14), 32, 48, (3, 3), (m, m), (3, 3), low=(1, 1), high=(1, 1)) for m in range(2, 9)]
EDGES = [
    # Tiles that overhang on every side, images smaller than a tile, and asymmetric padding.
    Program((7, 7), 16, 16, (3, 3), (4, 4), (3, 3), low=(1, 1), high=(1, 1)),
    Program((5, 3), 16, 16, (3, 3), (6, 6), (3, 3), low=(1, 1), high=(1, 1)),
    Program((13, 18), 16, 32, (3, 3), (4, 4), (3, 3)),
    Program((13, 11), 16, 32, (3, 3), (4, 4), (3, 3), low=(0, 2), high=(3, 1)),
    Program((1, 1), 8, 8, (3, 3), (2, 2), (3, 3), low=(1, 1), high=(1, 1)),
]
CHANNELS = [
    Program((10, 10), channels, outputs, (3, 3), (4, 4), (3, 3), low=(1, 1), high=(1, 1))
    for channels, outputs in [(1, 1), (3, 10), (5, 64), (17, 33), (100, 7), (16, 100), (130, 40)]
]
RECTANGULAR = [
    Program((12, 13), 16, 16, (3, 3), (2, 4), (3, 3), low=(1, 1), high=(1, 1)),
    Program((9, 17), 24, 16, (1, 7), (1, 4), (1, 7), low=(0, 3), high=(0, 3)),
    Program((17, 9), 24, 16, (7, 1), (4, 1), (7, 1), low=(3, 0), high=(3, 0)),
    Program((9, 9), 16, 16, (3, 2), (4, 3), (3, 2)),
]
VIEWS = [
    Program((12, 12), 16, 16, (5, 5), (4, 4), (3, 3), low=(2, 2), high=(2, 2)),
    Program((12, 12), 16, 16, (7, 7), (2, 2), (4, 4), low=(3, 3), high=(3, 3)),
    Program((15, 15), 8, 16, (11, 11), (2, 2), (3, 3), strides=(4, 4), low=(2, 2), high=(2, 2)),
    Program((14, 14), 16, 16, (3, 3), (4, 4), (2, 2), strides=(2, 2), low=(1, 1), high=(1, 1)),
    Program((15, 15), 16, 16, (3, 3), (2, 2), (1, 1), strides=(3, 3), low=(1, 1), high=(1, 1)),
    Program((15, 17), 16, 16, (3, 3), (4, 4), (3, 3), dilations=(2, 2), low=(2, 2), high=(2, 2)),
    Program(
        (19, 17), 8, 16, (3, 3), (2, 2), (2, 3), strides=(2, 1), dilations=(3, 2), low=(3, 2), high=(3, 2)
    ),
]
DIRECT = [
    Program((14, 14), 32, 64, (1, 1), (1, 1), (1, 1)),
    Program((14, 15), 32, 40, (1, 1), (1, 1), (1, 1), strides=(2, 2)),
    Program((1, 1), 32, 9, (1, 1), (1, 1), (1, 1)),
    Program((21, 21), 3, 64, (7, 7), (1, 1), (1, 1), strides=(2, 2), low=(3, 3), high=(3, 3)),
    Program((9, 130), 3, 20, (3, 3), (1, 1), (1, 1), low=(1, 1), high=(1, 1)),
    Program((13, 11), 5, 10, (5, 3), (1, 1), (1, 1), dilations=(2, 2), low=(2, 0), high=(1, 2)),
    Program(
        (14, 14), 16, 17, (3, 3), (1, 1), (1, 1), strides=(2, 3), dilations=(3, 2), low=(3, 2), high=(3, 2)
    ),
]
SPATIAL_RANKS = [
    Program((33,), 16, 24, (3,), (6,), (3,), low=(1,), high=(1,)),
    Program((33,), 16, 24, (5,), (1,), (1,), strides=(2,), low=(2,), high=(2,)),
    Program((6, 7, 8), 8, 16, (3, 3, 3), (2, 2, 2), (3, 3, 3), low=(1, 1, 1), high=(1, 1, 1)),
    Program((6, 7, 8), 8, 16, (3, 3, 3), (4, 2, 4), (3, 3, 3)),
    Program(
        (6, 7, 8), 8, 16, (3, 3, 3), (1, 1, 1), (1, 1, 1), strides=(2, 1, 1), low=(1, 1, 1), high=(1, 1, 1)
    ),
]
BATCHES = [
    Program((9, 9), 16, 16, (3, 3), (4, 4), (3, 3), batch=5, low=(1, 1), high=(1, 1)),
    Program((9, 9), 16, 16, (3, 3), (4, 4), (3, 3), batch=3, low=(1, 1), high=(1, 1), dynamic_batch=True),
    Program((30, 30), 16, 16, (3, 3), (2, 2), (3, 3), batch=2, low=(1, 1), high=(1, 1), dynamic_batch=True),
    Program((9, 9), 16, 16, (3, 3), (1, 1), (1, 1), batch=3, low=(1, 1), high=(1, 1), dynamic_batch=True),
]
FEW_TILES = [
    # Workgroups divide the channels, in blocks that overlap, and transform the same tiles.
    Program((7, 7), 48, 136, (3, 3), (2, 2), (3, 3), low=(1, 1), high=(1, 1)),
    Program((13, 13), 32, 200, (5, 5), (4, 4), (3, 3), low=(2, 2), high=(2, 2)),
]
MANY_TILES = [
    # 128 and more: those larger than the registers are transformed in parts, but for those on the edge.
    Program((47, 50), 16, 24, (3, 3), (4, 4), (3, 3), low=(1, 1), high=(1, 1)),
    Program((30, 50), 16, 16, (3, 3), (2, 4), (3, 3), low=(1, 1), high=(1, 1)),
    Program((11, 10, 12), 8, 16, (3, 3, 3), (2, 2, 2), (3, 3, 3), low=(1, 1, 1), high=(1, 1, 1)),
    Program((50, 65), 16, 24, (3, 3), (5, 4), (3, 3), low=(1, 1), high=(1, 1)),
    Program((70, 50), 20, 16, (3, 3), (6, 4), (3, 3), low=(1, 1), high=(1, 1)),
    Program((60, 60), 16, 16, (5, 5), (4, 4), (3, 3), low=(2, 2), high=(2, 2)),
    Program((60, 60), 16, 16, (3, 3), (4, 4), (3, 3), dilations=(2, 2), low=(2, 2), high=(2, 2)),
]
SAMPLE = [
    WINOGRAD[3],
    EDGES[1],
    CHANNELS[1],
    VIEWS[1],
    DIRECT[3],
    SPATIAL_RANKS[0],
    BATCHES[1],
    MANY_TILES[0],
]
OTHERS = [*WINOGRAD[::3], *CHANNELS[::3], RECTANGULAR[0], *VIEWS[2::3], *DIRECT[2::2], *SPATIAL_RANKS[2::2]]
OTHERS += [*EDGES[::2], BATCHES[3], *MANY_TILES[2::3]]
DEVICES = ["local-sync", "local-task"]


@pytest.mark.parametrize("programs", batches([*SAMPLE, *OTHERS], SAMPLE))
def test_agrees_with_float64(programs: list[Program]) -> None:
    check_together(programs)


@pytest.mark.parametrize("cpu", ["haswell", *wide(["x86-64"])])
def test_agrees_with_float64_on_lesser_targets(cpu: str) -> None:
    programs = [WINOGRAD[4], DIRECT[3], MANY_TILES[1], CHANNELS[3]]
    check_together(programs, flags=[f"--iree-llvmcpu-target-cpu={cpu}"])


def test_transforms_filters_known_only_at_run_time() -> None:
    check_together([replace(each, constant_filter=False) for each in (WINOGRAD[2], VIEWS[3], DIRECT[4])])


BY_BLOCKS = WinogradSchedule(
    vector_width=4,
    tile_block=6,
    register_tiles=3,
    register_vectors=2,
    reduction_block=3,
    channel_splits=2,
    input_block=4,
    filter_block=6,
)
"""Of which blocks of tiles and of output channels don't divide what there is."""


@pytest.mark.parametrize("target", wide(["cpu", "cpu:haswell"]))
def test_workgroups_transform_filters_by_blocks_of_channels(target: str) -> None:
    program = Program((13, 9), 18, 20, (3, 3), (4, 4), (3, 3), batch=2, low=(1, 1), high=(1, 1))
    schedules = BY_BLOCKS, replace(BY_BLOCKS, input_block=None, sum_registers=2, reduction_block=6)
    check_together(
        [
            replace(program, constant_filter=is_constant, schedule=schedule)
            for schedule in schedules
            for is_constant in (False, True)
        ],
        target=target,
    )


@pytest.mark.wide
def test_images_are_fetched() -> None:
    """Also beyond their last tile, and of parts of filters, of dilated ones and of a separate transform."""
    schedule = replace(BY_BLOCKS, filter_block=None, input_block=None, image_prefetch=2)
    fetched = [EDGES[3], VIEWS[0], VIEWS[5], SPATIAL_RANKS[2], BATCHES[1]]
    separate = [each for each in fetched if not each.dynamic_batch]
    check_together(
        [
            *(replace(each, schedule=schedule) for each in fetched),
            *(replace(each, schedule=replace(schedule, input_block=4)) for each in separate),
        ],
        devices=DEVICES,
    )


@pytest.mark.wide
def test_channels_last_images_alone_are_fetched() -> None:
    program = replace(
        EDGES[3], schedule=replace(BY_BLOCKS, filter_block=None, input_block=None, image_prefetch=1)
    )
    firsts = "input_channels_first", "output_channels_first"
    check_together([replace(program, **{first: True}) for first in firsts])


@pytest.mark.wide
def test_a_separate_input_transform_of_blocks_that_divide_the_tiles() -> None:
    """But not the rows, one of which is past the last tile."""
    schedule = replace(BY_BLOCKS, filter_block=None, tile_block=5, register_tiles=5, input_block=3)
    Program((9, 9), 16, 16, (3, 3), (4, 4), (3, 3), low=(1, 1), high=(1, 1), schedule=schedule).check()


@pytest.mark.wide
def test_workgroups_transform_filters_of_groups() -> None:
    program = Program((9, 9), 24, 40, (3, 3), (2, 2), (3, 3), low=(1, 1), high=(1, 1), groups=2)
    for is_constant in (False, True):
        replace(program, constant_filter=is_constant, schedule=BY_BLOCKS).check(device="local-task")


@pytest.mark.wide
def test_runs_on_other_threads_than_it_is_compiled_for() -> None:
    check_together([*FEW_TILES, EDGES[3], DIRECT[4], BATCHES[2]], devices=DEVICES, threads=16)


def test_workgroups_run_in_parallel() -> None:
    check_together([EDGES[3], DIRECT[4], BATCHES[2]], devices=["local-task"])
