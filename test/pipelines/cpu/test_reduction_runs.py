"""Products that leave out filters of zero: of strides, and of kernels that don't divide into equal parts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from checked_programs import check_together
from convolution_program import Program
from iree.winograd.pipelines.cpu.schedules.winograd import WinogradSchedule
from wide import batches, wide

STRIDED = Program((15, 18), 16, 20, (3, 3), (4, 4), (2, 2), strides=(2, 2), low=(1, 1), high=(1, 1))
STEM = Program((24, 21), 3, 24, (7, 7), (5, 5), (4, 4), strides=(2, 2), low=(3, 3), high=(3, 3))
CUBES = Program((6, 9, 8), 8, 16, (3, 3, 3), (2, 2, 2), (2, 2, 2), strides=(2, 2, 2), low=(1, 1, 1))
PROGRAMS = [
    STRIDED,
    STEM,
    CUBES,
    Program((33,), 16, 24, (5,), (3,), (3,), strides=(2,), low=(2,), high=(2,)),
    Program((12, 13), 18, 16, (5, 5), (2, 4), (3, 3), low=(2, 2), high=(2, 2)),
    # Without tiles along a dimension, or without taps that are missing along one.
    Program((11, 16), 16, 16, (3, 3), (1, 4), (2, 2), strides=(2, 2), low=(1, 1), high=(1, 1)),
    Program((16, 11), 16, 16, (3, 4), (4, 3), (2, 2), strides=(2, 2), low=(1, 1), high=(1, 1)),
    Program((11, 16), 16, 16, (4, 3), (3, 4), (2, 2), strides=(2, 2), low=(1, 1), high=(1, 1)),
    replace(STRIDED, channels=32, outputs=40, groups=2),
    replace(STRIDED, input_channels_first=True, output_channels_first=True),
    replace(STEM, constant_filter=False),
    Program(
        (15, 17), 16, 16, (3, 3), (2, 2), (2, 3), strides=(2, 1), dilations=(3, 2), low=(3, 2), high=(3, 2)
    ),
]


@pytest.mark.parametrize("programs", batches(PROGRAMS, [*PROGRAMS[:3], *PROGRAMS[4:6], *PROGRAMS[-3:]]))
def test_agrees_with_float64(programs: list[Program]) -> None:
    check_together(programs)


BLOCKS = WinogradSchedule(
    vector_width=4, tile_block=6, register_tiles=3, register_vectors=2, reduction_block=8, channel_splits=2
)


@pytest.mark.parametrize("program", wide([STRIDED, STEM, CUBES]), ids=str)
def test_in_blocks(program: Program) -> None:
    """That end where runs do, that don't, and one of all: with all pairs of what else there is."""
    schedules = [
        replace(BLOCKS, reduction_block=reduction_block, sum_registers=sum_registers, input_block=input_block)
        for reduction_block, sum_registers, input_block in (
            (5, 1, None),
            (5, 2, 4),
            (8, 1, 4),
            (8, 2, None),
            (1000, 1, None),
            (1000, 2, 4),
        )
    ]
    check_together([replace(program, schedule=schedule) for schedule in schedules])
