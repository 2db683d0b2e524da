"""Kernels that read and write channels-first images themselves, against float64."""

from __future__ import annotations

from dataclasses import replace

import pytest
from checked_programs import check_together
from convolution_program import Program
from iree.winograd.pipelines.cpu.schedules.direct import DirectSchedule
from iree.winograd.pipelines.cpu.schedules.winograd import WinogradSchedule
from wide import batches

SMALL_BLOCKS = WinogradSchedule(
    vector_width=4, tile_block=3, register_tiles=3, register_vectors=1, reduction_block=20
)
APART = replace(SMALL_BLOCKS, tile_block=5, register_tiles=5, reduction_block=16, input_block=1)
WINOGRAD = [Program((14, 14), 32, 48, (3, 3), (m, m), (3, 3), low=(1, 1), high=(1, 1)) for m in (2, 3, 4, 6)]
EDGES = [
    # Tiles that overhang on every side, images smaller than a tile, and asymmetric padding.
    Program((7, 7), 16, 16, (3, 3), (4, 4), (3, 3), low=(1, 1), high=(1, 1)),
    Program((5, 3), 16, 16, (3, 3), (6, 6), (3, 3), low=(1, 1), high=(1, 1)),
    Program((13, 18), 16, 32, (3, 3), (4, 4), (3, 3)),
    Program((13, 11), 16, 32, (3, 3), (4, 4), (3, 3), low=(0, 2), high=(3, 1)),
    Program((1, 2), 8, 8, (3, 3), (2, 2), (3, 3), low=(1, 1), high=(1, 1)),
]
CHANNELS = [
    Program((10, 10), channels, outputs, (3, 3), (4, 4), (3, 3), low=(1, 1), high=(1, 1))
    for channels, outputs in [(3, 10), (5, 64), (17, 33), (100, 7), (130, 40)]
]
VIEWS = [
    Program((12, 12), 16, 16, (5, 5), (4, 4), (3, 3), low=(2, 2), high=(2, 2)),
    Program((9, 17), 24, 16, (1, 7), (1, 4), (1, 7), low=(0, 3), high=(0, 3)),
    Program((19, 17), 8, 16, (3, 3), (2, 2), (2, 3), strides=(2, 1), low=(1, 1), high=(1, 1)),
    # Tiles whose elements don't lie side by side are transposed as before.
    Program((14, 14), 16, 16, (3, 3), (4, 4), (2, 2), strides=(2, 2), low=(1, 1), high=(1, 1)),
    Program((15, 17), 16, 16, (3, 3), (4, 4), (3, 3), dilations=(2, 2), low=(2, 2), high=(2, 2)),
]
PARTS_OF_ROWS = DirectSchedule(
    vector_width=8, register_pixels=4, register_vectors=2, row_block=2, pixel_block=12
)
DIRECT = [
    Program((14, 14), 32, 64, (1, 1), (1, 1), (1, 1)),
    Program((21, 21), 3, 64, (7, 7), (1, 1), (1, 1), strides=(2, 2), low=(3, 3), high=(3, 3)),
    Program((9, 130), 3, 20, (3, 3), (1, 1), (1, 1), low=(1, 1), high=(1, 1)),
    # Fewer columns than a vector has lanes, or some past the last vector, a batch, and other numbers of rows.
    Program((9, 5), 3, 20, (3, 3), (1, 1), (1, 1), low=(1, 1), high=(1, 1)),
    Program((11, 43), 2, 24, (3, 5), (1, 1), (1, 1), strides=(1, 2), low=(1, 2), high=(1, 2), batch=2),
    Program((9, 43), 3, 32, (3, 3), (1, 1), (1, 1), low=(1, 2), high=(1, 1), schedule=PARTS_OF_ROWS),
    Program((7, 5), 20, 100, (3, 3), (1, 1), (1, 1), low=(1, 1), high=(1, 1)),
    Program((9, 9), 12, 18, (3, 3), (1, 1), (1, 1), low=(1, 1), high=(1, 1), activation="swish"),
]
SPATIAL_RANKS = [
    Program((33,), 16, 24, (3,), (6,), (3,), low=(1,), high=(1,)),
    Program((33,), 16, 24, (5,), (1,), (1,), strides=(2,), low=(2,), high=(2,)),
    Program((6, 7, 8), 8, 16, (3, 3, 3), (2, 2, 2), (3, 3, 3), low=(1, 1, 1), high=(1, 1, 1)),
    Program((6, 7, 8), 8, 16, (3, 3, 3), (1, 1, 1), (1, 1, 1), low=(1, 1, 1), high=(1, 1, 1)),
]
BATCHES = [
    Program((9, 9), 16, 16, (3, 3), (4, 4), (3, 3), batch=3, low=(1, 1), high=(1, 1), dynamic_batch=True),
    Program((9, 9), 16, 16, (3, 3), (1, 1), (1, 1), batch=3, low=(1, 1), high=(1, 1), dynamic_batch=True),
]
GROUPS = [
    Program((9, 9), 32, 48, (3, 3), (4, 4), (3, 3), low=(1, 1), high=(1, 1), groups=2),
    Program((9, 9), 48, 64, (3, 3), (1, 1), (1, 1), low=(1, 1), high=(1, 1), groups=2),
    Program((9, 9), 24, 24, (3, 3), (1, 1), (1, 1), low=(1, 1), high=(1, 1), groups=24),
]
STRIPS = [
    # Rows of tiles that are cut, blocks of tiles that begin and end within them, and tiles of padding alone.
    Program((5, 1100), 4, 4, (3, 3), (2, 2), (3, 3), low=(1, 1), high=(1, 1)),
    Program(
        (13, 17), 20, 24, (5, 5), (4, 4), (5, 5), batch=2, low=(2, 2), high=(2, 2), schedule=SMALL_BLOCKS
    ),
    Program((3, 5), 8, 8, (3, 3), (2, 2), (3, 3), low=(4, 6), high=(5, 7)),
    # Tiles of a dispatch of their own, one of which is past the last.
    Program((9, 9), 16, 16, (3, 3), (4, 4), (3, 3), low=(1, 1), high=(1, 1), schedule=APART),
]
SAMPLE = [WINOGRAD[2], EDGES[1], CHANNELS[1], VIEWS[2], DIRECT[2], STRIPS[0], BATCHES[0], GROUPS[1]]
OTHERS = [CHANNELS[4], *DIRECT[3:], *SPATIAL_RANKS[1:3], *STRIPS[1:], *GROUPS[2:]]


@pytest.mark.parametrize("programs", batches([*SAMPLE, *OTHERS], SAMPLE))
def test_agrees_with_float64(programs: list[Program]) -> None:
    check_together([program.channels_first for program in programs])


@pytest.mark.parametrize("target", ["cpu:haswell", "cpu:x86-64"])
@pytest.mark.wide
def test_other_processors(target: str) -> None:
    programs = [STRIPS[1], DIRECT[1], EDGES[3], GROUPS[0]]
    check_together([program.channels_first for program in programs], target=target)


@pytest.mark.wide
def test_one_of_both_images() -> None:
    programs = [STRIPS[1], DIRECT[2]]
    check_together(
        [
            *(replace(program, input_channels_first=True) for program in programs),
            *(replace(program, output_channels_first=True) for program in programs),
        ]
    )


@pytest.mark.wide
def test_several_threads() -> None:
    WINOGRAD[2].channels_first.check(device="local-task")
