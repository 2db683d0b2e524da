"""Schedules that would have kernels leave their arrays are refused, wherever they come from."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
from iree.winograd.dialect.decomposition import decompose
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.cpu.choice.kernel_choices import KERNEL_CHOICES
from iree.winograd.pipelines.cpu.kernels.kernel_of import KERNEL_KINDS, kernel_for, kernel_misfit
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.schedules.depthwise import DepthwiseSchedule
from iree.winograd.pipelines.cpu.schedules.direct import DirectSchedule
from iree.winograd.pipelines.cpu.schedules.fit import CpuSchedule
from iree.winograd.pipelines.cpu.schedules.winograd import WinogradSchedule
from iree.winograd.pipelines.problems.shape import ConvolutionShape

TARGET = CpuTarget.of("haswell", "+avx2,+fma")
WINOGRAD = WinogradSchedule(8, tile_block=8, register_tiles=4, register_vectors=2, reduction_block=32)
DIRECT = DirectSchedule(8, register_pixels=4, register_vectors=2, row_block=2, pixel_block=8)
DEPTHWISE = DepthwiseSchedule(8, register_pixels=4, row_block=2, vectors_per_pass=2)


def shape(m: int, groups: int = 1, batch: int | None = 1, padding: int = 0) -> ConvolutionShape:
    decomposition = decompose((3, 3), (m, m), part_size=(1, 1) if m == 1 else (3, 3))
    size, around = (14 - 2 * padding,) * 2, (padding, padding)
    problem = ConvolutionProblem(batch, size, around, around, (3, 3), (1, 1), (1, 1), groups, 32, 32)
    return ConvolutionShape.decomposed(problem, decomposition)


CONVOLUTIONS = {WINOGRAD: shape(4), DIRECT: shape(1, padding=1), DEPTHWISE: shape(1, groups=16)}


@pytest.mark.parametrize("schedule", CONVOLUTIONS, ids=lambda schedule: type(schedule).__name__)
def test_what_fits_is_taken(schedule: WinogradSchedule | DirectSchedule | DepthwiseSchedule) -> None:
    assert kernel_misfit(CONVOLUTIONS[schedule], TARGET, schedule) is None


@pytest.mark.parametrize(
    ("schedule", "change", "reason"),
    [
        (WINOGRAD, {"register_tiles": 3}, "register_tiles 3 must divide tile_block 8"),
        (WINOGRAD, {"register_vectors": 5}, "blocks of 40 channels exceed the 32 that there are"),
        (WINOGRAD, {"vector_width": 16}, "vectors of 16 lanes exceed the target's of 8"),
        (WINOGRAD, {"tile_block": 512}, "a workgroup needs .* bytes, but has 261120 of its own"),
        (DIRECT, {"pixel_block": 13}, "pixel_block 13 exceeds the 12 outputs of a row"),
        (DIRECT, {"register_pixels": 9}, "register_pixels 9 exceeds pixel_block 8"),
        (DIRECT, {"row_block": 1000}, "a workgroup needs .* bytes"),
        (DEPTHWISE, {"vector_width": 1}, "vectors of 1 lanes don't hold whole groups of 2"),
        (DEPTHWISE, {"register_pixels": 13}, "register_pixels 13 exceeds the 12 outputs of a row"),
        (DEPTHWISE, {"row_block": 13}, "row_block 13 exceeds the 12 rows of outputs"),
        (DEPTHWISE, {"image_prefetch": 1, "vectors_per_pass": 1}, "rows are fetched ahead of images"),
    ],
)
def test_what_does_not_fit_is_an_error(
    schedule: WinogradSchedule | DirectSchedule | DepthwiseSchedule, change: dict[str, int], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        kernel_for(CONVOLUTIONS[schedule], TARGET, replace(schedule, **change))


def test_a_separate_input_transform_needs_a_static_batch() -> None:
    with pytest.raises(ValueError, match="needs sizes known at compile time"):
        kernel_for(shape(4, batch=None), TARGET, replace(WINOGRAD, input_block=4))


def test_all_classes_of_schedules_have_both_rows() -> None:
    assert KERNEL_KINDS.keys() == KERNEL_CHOICES.keys() == set(get_args(CpuSchedule))
