"""Results of warpgroups that leave through shared memory: what kernels compute, by an interpreter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from agreement import expect_within
from half_pointwise import choosing, pointwise_ptx
from iree.winograd.dialect.decomposition import decompose
from iree.winograd.dialect.reference import filter_transform
from iree.winograd.passes.match.convolutions.element_types import F32
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.emission.work import Sizes
from iree.winograd.pipelines.gpu.kernels.matrix_products.products import DirectProductKernel
from iree.winograd.pipelines.gpu.kernels.matrix_products.warpgroup import WarpgroupProduct
from iree.winograd.pipelines.gpu.packing.split import SplitPacking
from iree.winograd.pipelines.gpu.schedules.warpgroup import WarpgroupSchedule
from iree.winograd.pipelines.problems.shape import ConvolutionShape
from ptx_interpreter import Kernel
from ptxas import spilled_bytes
from scheduled_program import ScheduledProgram

SPLIT = WarpgroupSchedule(64, 64, summed_block=64, stages=2, walking_workgroups=4, result_bytes=4)
GATHERING = WarpgroupSchedule(
    64, 64, products=1, multiplied_type="f16", stages=2, walking_workgroups=4, copying_warps=2, result_bytes=2
)
POINTWISE = ScheduledProgram((9, 8), 160, 72, (1, 1), (1, 1), (1, 1), batch=2, schedule=SPLIT)
COPY = "cp.async.bulk.global.shared::cta.bulk_group"


def packing_of(types: str, channels: int, schedule: WarpgroupSchedule) -> SplitPacking:
    problem = ConvolutionProblem.parse(
        f"2x9x8x{channels}->72 kernel 1x1 stride 1x1 dilation 1x1 padding 0x0 0x0 groups 1 {types}"
    )
    direct = decompose((1, 1), (1, 1), part_size=(1, 1))
    return SplitPacking(ConvolutionShape.decomposed(problem, direct), schedule)


def run(kernel: Kernel, packing: SplitPacking, arguments: list[np.ndarray]) -> None:
    """All workgroups of the kernel that multiplies."""
    schedule = packing.schedule
    assert isinstance(schedule, WarpgroupSchedule)
    (count,) = DirectProductKernel(WarpgroupProduct(packing, schedule)).workgroups(Sizes.of_batch(2))
    kernel.run(arguments, ((i,) for i in range(count.known or 0)))


def test_split_products_agree_with_float64(tmp_path: Path) -> None:
    """Four workgroups walk over three blocks of rows by two of columns, the last of which aren't full."""
    (text,) = POINTWISE.ptx("sm_90a", tmp_path)
    kernels = Kernel.by_stage(text)
    image, filters, bias = POINTWISE.arguments()
    packing = packing_of("f32", 160, SPLIT)
    weights = packing.pack_filters(filter_transform(filters.astype(np.float64), packing.shape.decomposition))
    packed = np.full((3, *packing.input_extents()), np.nan, np.float32)
    result = np.full((2, 9, 8, 72), np.nan, np.float32)
    per_workgroup = kernels["input"].threads // packing.tile_threads
    kernels["input"].run([image, packed], ((i, 0) for i in range(-(-2 * 9 * 8 // per_workgroup))))
    direct = text.split(".entry winograd_direct")[1].split(".entry")[0]
    assert COPY in direct and "st.global" not in direct
    assert not any(spilled_bytes(tmp_path, "sm_90a").values())
    run(kernels["direct"], packing, [packed, weights, bias, result])
    expect_within(result, POINTWISE.expected(image, filters, bias), POINTWISE.bound())


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[WarpgroupSchedule], None]]:
    """Has programs computed by a schedule."""

    with choosing(monkeypatch) as choose:
        yield choose


def test_gathered_products_agree_with_float64(
    chosen: Callable[[WarpgroupSchedule], None], tmp_path: Path
) -> None:
    """In the type that images have in memory."""
    chosen(GATHERING)
    generator = np.random.default_rng(0)
    image, filters = (
        generator.standard_normal(extents).astype(np.float16) for extents in ((2, 9, 8, 256), (1, 1, 256, 72))
    )
    text = pointwise_ptx(image, filters, tmp_path)
    kernels = Kernel.by_stage(text)
    assert set(kernels) == {"direct"}
    assert COPY in text and "st.global" not in text
    assert not any(spilled_bytes(tmp_path, "sm_90a").values())
    packing = packing_of("f32, operands of f16, result of f16", 256, GATHERING)
    weights = packing.pack_filters(filters.astype(np.float64).reshape(1, 256, 72))
    result = np.full((2, 9, 8, 72), np.nan, np.float16)
    run(kernels["direct"], packing, [image, weights, result])
    exact, magnitudes = (
        np.einsum("nhwc,ck->nhwk", f(image.astype(np.float64)), f(filters[0, 0].astype(np.float64)))
        for f in (lambda x: x, np.abs)
    )
    # One rounding to f16, and 256 sums of units that truncate to f32.
    bound = 2.0**-11 * np.abs(exact) + 256 * 2.0**-22 * magnitudes
    assert (np.abs(result.astype(np.float64) - exact) <= bound).all()


@pytest.mark.parametrize(
    "program",
    [
        replace(POINTWISE, outputs=30),
        replace(POINTWISE, schedule=replace(SPLIT, result_bytes=2)),
    ],
    ids=["rows are no whole chunks", "results don't fit"],
)
def test_other_results_are_stored(program: ScheduledProgram, tmp_path: Path) -> None:
    assert COPY not in "".join(program.ptx("sm_90a", tmp_path))


def test_results_take_memory() -> None:
    """Rows of a warp's results lie in other banks: an odd number of sixteens apart."""
    stored = replace(SPLIT, result_bytes=None)
    assert SPLIT.result_row == 80 and replace(SPLIT, block_columns=48).result_row == 48
    assert SPLIT.shared_memory_bytes(F32) - stored.shared_memory_bytes(F32) == 64 * 80 * 4
