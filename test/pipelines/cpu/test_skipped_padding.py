"""Direct convolutions that leave out taps which read padding, against float64."""

from __future__ import annotations

from dataclasses import replace

import pytest
from checked_programs import check_together
from convolution_program import Program
from iree.winograd.dialect.decomposition import decompose
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.cpu.schedules.direct import RowPart, row_parts, skips_padding
from iree.winograd.pipelines.problems.shape import ConvolutionShape
from wide import wide_combinations


def skipping(size: tuple[int, ...], channels: int, outputs: int, dilations: tuple[int, ...]) -> Program:
    """A convolution of three taps in each dimension, of outputs as large as its images."""
    ones = (1,) * len(size)
    return Program(
        size,
        channels,
        outputs,
        (3,) * len(size),
        ones,
        ones,
        dilations=dilations,
        low=dilations,
        high=dilations,
    )


def shape_of(size: int, dilation: int) -> ConvolutionShape:
    """A convolution of 3 x 3 taps of images that are so wide and high."""
    problem = ConvolutionProblem.parse(
        f"1x{size}x{size}x64->64 kernel 3x3 stride 1x1 dilation {dilation}x{dilation} "
        f"padding {dilation}x{dilation} {dilation}x{dilation} groups 1 f32"
    )
    decomposition = decompose((3, 3), (1, 1), dilations=(dilation, dilation), part_size=(1, 1))
    return ConvolutionShape.decomposed(problem, decomposition)


TWO_DIMENSIONS = skipping((14, 14), 20, 40, (10, 9))
PROGRAMS = [
    TWO_DIMENSIONS,
    # Sums in blocks of rows of taps, of taps, and of channels.
    skipping((12, 13), 300, 24, (8, 7)),
    skipping((9, 9), 600, 16, (6, 5)),
    skipping((17,), 16, 24, (12,)),
    skipping((6, 7, 11), 8, 16, (4, 1, 8)),
    replace(TWO_DIMENSIONS, groups=4),
    replace(TWO_DIMENSIONS, dynamic_batch=True, batch=2),
    replace(TWO_DIMENSIONS, constant_filter=False, batch=2),
    TWO_DIMENSIONS.channels_first,
    # Some outputs have no tap at all, others lie apart.
    replace(TWO_DIMENSIONS, low=(25, 14), high=(3, 20)),
    replace(TWO_DIMENSIONS, strides=(2, 2), size=(23, 24)),
    replace(TWO_DIMENSIONS, kernel=(3, 1), low=(10, 0), high=(10, 0), dilations=(10, 1)),
]


@pytest.mark.parametrize(
    ("programs", "threads"),
    [(PROGRAMS[1:2], 16), *wide_combinations([(PROGRAMS[:1], 16), (PROGRAMS[2:6], 1), (PROGRAMS[6:], 1)])],
)
def test_agrees_with_float64(programs: list[Program], threads: int) -> None:
    check_together(programs, threads=threads)


def test_few_neighbours_count_as_many_as_take_as_long() -> None:
    # Of 42 columns that taps of a row may read 30 are in the image, of the smaller one 17 of 21. Neighbours
    # with the same taps are 6, 2 and 6, and 2, 3 and 2.
    shapes = [shape_of(size, dilation) for size, dilation in ((14, 6), (7, 2))]
    assert [skips_padding(shape, shape.output_size[-1]) for shape in shapes] == [True, False]


@pytest.mark.parametrize(
    ("dilation", "parts"),
    [
        (12, (RowPart(0, 12, range(1, 3)), RowPart(12, 4, range(3)), RowPart(16, 12, range(2)))),
        (24, (RowPart(0, 4, range(1, 3)), RowPart(4, 20, range(1, 2)), RowPart(24, 4, range(2)))),
        (26, (RowPart(0, 2, range(1, 3)), RowPart(2, 24, range(1, 2)), RowPart(26, 2, range(2)))),
        # Of so few taps it isn't worth it.
        (2, (RowPart(0, 28, range(3)),)),
    ],
)
def test_parts_of_a_row_have_the_taps_that_they_need(dilation: int, parts: tuple[RowPart, ...]) -> None:
    shape = shape_of(28, dilation)
    assert row_parts(shape, 28) == parts
    assert skips_padding(shape, 28) == (len(parts) > 1)
    assert not skips_padding(shape, 14)
