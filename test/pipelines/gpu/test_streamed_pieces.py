"""Half precision of pixels that stream, also of unknown sizes, or whose results are parts of sectors: by an
interpreter."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from half_pointwise import choosing, pointwise_ptx
from iree.winograd.dialect.decomposition import decompose
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.emission.work import Sizes
from iree.winograd.pipelines.gpu.kernels.direct.streamed import StreamedKernel
from iree.winograd.pipelines.gpu.packing.streamed import StreamedPacking
from iree.winograd.pipelines.gpu.schedules.streamed import StreamedSchedule
from iree.winograd.pipelines.problems.shape import ConvolutionShape
from iree.winograd.pipelines.selection import chooser
from ptx_interpreter import Kernel
from wide import wide_combinations

WARPS = StreamedSchedule(16, 64, warps=2, walking_workgroups=2, products=1, multiplied_type="f16")
WARPGROUP = StreamedSchedule(
    16, 64, warps=4, walking_workgroups=2, warpgroup_columns=32, products=1, multiplied_type="f16"
)
CONSTANT_BYTES = 64


@pytest.mark.parametrize(
    ("channels", "outputs", "schedule", "are_pieces"),
    [
        (58, 40, WARPGROUP, True),
        (40, 58, WARPS, True),
        (24, 48, WARPGROUP, False),
        *wide_combinations([(24, 58, WARPGROUP, True), (24, 48, WARPS, False)]),
    ],
)
def test_products_agree_with_float64(
    channels: int,
    outputs: int,
    schedule: StreamedSchedule,
    are_pieces: bool,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Blocks of rows, as many as warps or more; each is stored by 16 bytes of a thread."""
    generator = np.random.default_rng(0)
    image, filters, bias = (
        generator.standard_normal(extents).astype(np.float16)
        for extents in ((2, 12, 8, channels), (1, 1, channels, outputs), (outputs,))
    )
    with choosing(monkeypatch) as choose:
        choose(schedule)
        text = pointwise_ptx(image, filters, tmp_path, bias)
    kernels = Kernel.by_stage(text)
    assert set(kernels) == {"direct"}
    stores = {line.split()[0] for line in text.splitlines() if "st.global" in line}
    assert stores == {"st.global.v4.b32"}
    problem = ConvolutionProblem.parse(
        f"2x12x8x{channels}->{outputs} kernel 1x1 stride 1x1 dilation 1x1 padding 0x0 0x0 groups 1 "
        "f32, operands of f16, result of f16"
    )
    shape = ConvolutionShape.decomposed(problem, decompose((1, 1), (1, 1), part_size=(1, 1)))
    packing = StreamedPacking(shape, schedule)
    assert schedule.results_lie_together(shape) == are_pieces
    weights = packing.pack_filters(filters.astype(np.float64).reshape(1, channels, outputs))
    result = np.full((2, 12, 8, outputs), np.nan, np.float16)
    grid = [each.known for each in StreamedKernel(packing).workgroups(Sizes.of_batch(2))]
    places = itertools.product(*(range(each or 0) for each in grid))
    # Constants are one buffer, in which each begins at a multiple of this.
    packed = [each.reshape(-1).view(np.uint8) for each in (weights, bias.astype(np.float32))]
    constants = np.concatenate([np.pad(each, (0, -each.size % CONSTANT_BYTES)) for each in packed])
    kernels["direct"].run([image, constants, result], places)
    _expect_products(result, image, filters, bias.astype(np.float64))


@pytest.mark.parametrize(
    ("channels", "outputs", "schedule"),
    [
        (16, 64, WARPGROUP),
        (24, 32, replace(WARPS, block_columns=32)),
        *wide_combinations(
            [(64, 16, replace(WARPGROUP, block_columns=32)), (96, 24, replace(WARPGROUP, block_columns=32))]
        ),
    ],
)
def test_images_of_any_size_agree_with_float64(
    channels: int, outputs: int, schedule: StreamedSchedule, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The last rows are parts of a block, and of few channels a part of each row of filters is copied."""
    generator = np.random.default_rng(0)
    image, filters = (
        generator.standard_normal(extents).astype(np.float16)
        for extents in ((1, 13, 11, channels), (1, 1, channels, outputs))
    )
    monkeypatch.setattr(chooser, "schedule_ranges", lambda *_: ())
    with choosing(monkeypatch) as choose:
        choose(schedule)
        text = pointwise_ptx(image, filters, tmp_path, is_open=True)
    problem = ConvolutionProblem.parse(
        f"1x?13x?11x{channels}->{outputs} kernel 1x1 stride 1x1 dilation 1x1 padding 0x0 0x0 groups 1 "
        "f32, operands of f16, result of f16"
    )
    shape = ConvolutionShape.decomposed(problem, decompose((1, 1), (1, 1), part_size=(1, 1)))
    packing = StreamedPacking(shape, schedule)
    weights = packing.pack_filters(filters.astype(np.float64).reshape(1, channels, outputs))
    result = np.full((1, 13, 11, outputs), np.nan, np.float16)
    # Two words of each size.
    sizes = [np.array(word) for size in (13, 11) for word in (size, 0)]
    places = itertools.product(range(schedule.walking_workgroups), range(1), range(1))
    Kernel.by_stage(text)["direct"].run([image, weights, result, *sizes], places)
    _expect_products(result, image, filters)


def _expect_products(
    result: np.ndarray, image: np.ndarray, filters: np.ndarray, bias: np.ndarray | float = 0.0
) -> None:
    exact, magnitudes = (
        np.einsum("nhwc,ck->nhwk", f(image.astype(np.float64)), f(filters[0, 0].astype(np.float64)))
        for f in (lambda x: x, np.abs)
    )
    exact += bias
    # One rounding to f16, and sums of units that truncate to f32.
    bound = 2.0**-11 * np.abs(exact) + image.shape[-1] * 2.0**-22 * (magnitudes + np.abs(bias))
    assert (np.abs(result.astype(np.float64) - exact) <= bound).all()
