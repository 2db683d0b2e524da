"""Products whose rows are copied from images by tensor maps: what kernels compute, by an interpreter."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from half_pointwise import choosing, pointwise_ptx
from iree.winograd.dialect.decomposition import decompose
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.emission.work import Sizes
from iree.winograd.pipelines.gpu.choice.default_schedule import default_schedules
from iree.winograd.pipelines.gpu.kernels.matrix_products.products import DirectProductKernel
from iree.winograd.pipelines.gpu.kernels.matrix_products.warpgroup import WarpgroupProduct
from iree.winograd.pipelines.gpu.packing.split import SplitPacking
from iree.winograd.pipelines.gpu.schedules.fit import kernel_misfit
from iree.winograd.pipelines.gpu.schedules.warpgroup import WarpgroupSchedule
from iree.winograd.pipelines.machines.defaults import default_gpu_machine
from iree.winograd.pipelines.problems.shape import ConvolutionShape
from ptx_interpreter import Kernel
from ptxas import spilled_bytes
from scheduled_program import HOPPER
from wide import wide_combinations

HALVES = "f32, operands of f16, result of f16"
MAPPING = WarpgroupSchedule(
    128, 96, products=1, multiplied_type="f16", stages=2, walking_workgroups=2, box_rows=128
)
BY_PIECES = replace(MAPPING, block_rows=192, block_columns=256, box_rows=64)
"""Whose threads multiply 128 columns at once."""
ALTERNATING = replace(MAPPING, stages=4, alternating_warpgroups=2)
"""Whose warpgroups have 128 rows each, in two products."""


def pointwise(channels: int, outputs: int, types: str = HALVES) -> ConvolutionShape:
    layer = f"2x11x9x{channels}->{outputs} kernel 1x1 stride 1x1"
    problem = ConvolutionProblem.parse(f"{layer} dilation 1x1 padding 0x0 0x0 groups 1 {types}")
    return ConvolutionShape.decomposed(problem, decompose((1, 1), (1, 1), part_size=(1, 1)))


@pytest.mark.parametrize(
    ("schedule", "channels", "outputs"),
    [
        (MAPPING, 136, 192),
        (replace(ALTERNATING, block_rows=64, box_rows=64, stages=2), 136, 192),
        # Those that store eight neighbours walk over blocks in the same ways: `test_store_width.py`.
        *wide_combinations(
            [
                (replace(MAPPING, result_bytes=2), 64, 288),
                (BY_PIECES, 64, 256),
                (ALTERNATING, 136, 288),
            ]
        ),
    ],
    ids=[
        "channels that end within a stage",
        "fewer stages than a block has",
        "results that are copied",
        "several instructions for a step",
        "warpgroups that alternate",
    ],
)
def test_agrees_with_float64(
    schedule: WarpgroupSchedule,
    channels: int,
    outputs: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two workgroups walk over blocks, the last of which aren't full, where the first have left results."""
    generator = np.random.default_rng(0)
    image, filters = (
        generator.standard_normal(extents).astype(np.float16)
        for extents in ((2, 11, 9, channels), (1, 1, channels, outputs))
    )
    with choosing(monkeypatch) as choose:
        choose(schedule)
        text = pointwise_ptx(image, filters, tmp_path)
    kernels = Kernel.by_stage(text)
    assert set(kernels) == {"direct"}
    assert not any(spilled_bytes(tmp_path, "sm_90a").values())
    packing = SplitPacking(pointwise(channels, outputs), schedule)
    weights = packing.pack_filters(filters.astype(np.float64).reshape(1, channels, outputs))
    result = np.full((2, 11, 9, outputs), np.nan, np.float16)
    (count,) = DirectProductKernel(WarpgroupProduct(packing, schedule)).workgroups(Sizes.of_batch(2))
    kernels["direct"].run([image, weights, result], ((i,) for i in range(count.known or 0)))
    exact, magnitudes = (
        np.einsum("nhwc,ck->nhwk", f(image.astype(np.float64)), f(filters[0, 0].astype(np.float64)))
        for f in (lambda x: x, np.abs)
    )
    # One rounding to f16, and sums of units that truncate to f32.
    bound = 2.0**-11 * np.abs(exact) + channels * 2.0**-22 * magnitudes
    assert (np.abs(result.astype(np.float64) - exact) <= bound).all()


def test_sums_of_parts_have_maps_in_their_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = replace(MAPPING, reduction_parts=2, walking_workgroups=3)
    generator = np.random.default_rng(0)
    image, filters = (
        generator.standard_normal(extents).astype(np.float16)
        for extents in ((2, 11, 9, 136), (1, 1, 136, 192))
    )
    with choosing(monkeypatch) as choose:
        choose(schedule)
        text = pointwise_ptx(image, filters, tmp_path)
    packing = SplitPacking(pointwise(136, 192), schedule)
    weights = packing.pack_filters(filters.astype(np.float64).reshape(1, 136, 192))
    sums = np.full((2, *packing.product_extents()), np.nan, np.float32)
    Kernel.by_stage(text)["products"].run([image, weights, sums], ((i,) for i in range(3)))
    exact = image.reshape(-1, 136).astype(np.float64) @ filters[0, 0].astype(np.float64)
    # Sums of 256 products, of which 120 are zeros, of units that truncate to f32.
    found = sums.astype(np.float64).sum(1).reshape(256, 192)[: len(exact)]
    assert np.abs(found - exact).max() <= 256 * 2.0**-22 * np.abs(exact).max() + 1e-3


@pytest.mark.parametrize(
    "other",
    [
        pointwise(132, 192),
        pointwise(136, 200),
    ],
    ids=["rows that aren't aligned", "no place for the map"],
)
def test_other_images_are_not_mapped(other: ConvolutionShape) -> None:
    assert kernel_misfit(pointwise(136, 192), HOPPER, MAPPING) is None
    assert kernel_misfit(other, HOPPER, MAPPING) is not None


@pytest.mark.parametrize(
    ("pixels", "channels", "outputs", "block"),
    [
        (1568, 3072, 768, (64, 160)),
        (25088, 768, 192, (64, 192)),
        (6272, 1536, 384, (192, 96)),
        (1568, 768, 3072, (128, 192)),
        (6272, 384, 1536, (128, 192)),
        (1568, 1280, 320, (64, 160)),
    ],
)
def test_layers_that_gain_have_images_mapped(
    pixels: int, channels: int, outputs: int, block: tuple[int, int]
) -> None:
    """By the block that took an H200 least time: 12.7, 13.8, 13.2, 16.2, 14.7 and 6.5 us.

    Rows that were gathered took 20.0, 18.1, 15.2, 20.2, 17.3 and 7.3.
    """
    chosen = fastest(pixels, channels, outputs)
    assert isinstance(chosen, WarpgroupSchedule) and chosen.maps_image
    assert (chosen.block_rows, chosen.block_columns) == block


@pytest.mark.parametrize(("pixels", "channels", "outputs"), [(1568, 1152, 192), (784, 768, 192)])
def test_layers_of_few_blocks_are_gathered(pixels: int, channels: int, outputs: int) -> None:
    chosen = fastest(pixels, channels, outputs)
    assert isinstance(chosen, WarpgroupSchedule) and chosen.gathers


def fastest(pixels: int, channels: int, outputs: int) -> object:
    layer = f"{pixels}x1x1x{channels}->{outputs} kernel 1x1 stride 1x1 dilation 1x1 padding 0x0 0x0"
    problem = ConvolutionProblem.parse(f"{layer} groups 1 {HALVES}")
    shape = ConvolutionShape.decomposed(problem, decompose((1, 1), (1, 1), part_size=(1, 1)))
    offered = default_schedules(shape, HOPPER, default_gpu_machine("sm_90a"))
    return next(each for each in offered if each.matrix_products == 1)


def test_boxes_divide_blocks() -> None:
    with pytest.raises(ValueError, match="one warp copies blocks by boxes of up to 256 rows"):
        replace(MAPPING, box_rows=96)
