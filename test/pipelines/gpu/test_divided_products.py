"""Products of which only the last ones are in parts: what the text of kernels computes, by an interpreter."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from agreement import expect_within
from iree.winograd.dialect.decomposition import decompose
from iree.winograd.dialect.reference import filter_transform
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.gpu.kernels.winograd.transforms import transform_grid
from iree.winograd.pipelines.gpu.packing.split import SplitPacking
from iree.winograd.pipelines.gpu.schedules.warpgroup import WarpgroupSchedule
from iree.winograd.pipelines.problems.shape import ConvolutionShape
from ptx_interpreter import Kernel
from scheduled_program import ScheduledProgram

SCHEDULE = WarpgroupSchedule(
    64, 64, summed_block=64, stages=4, walking_workgroups=7, reduction_parts=2, divided_products=3
)
PROGRAM = ScheduledProgram(
    (9, 8), 80, 72, (3, 3), (2, 2), (3, 3), batch=2, low=(1, 1), high=(1, 1), schedule=SCHEDULE
)
SHAPE = ConvolutionShape.decomposed(
    ConvolutionProblem.parse("2x9x8x80->72 kernel 3x3 stride 1x1 dilation 1x1 padding 1x1 1x1 groups 1 f32"),
    decompose((3, 3), (2, 2), part_size=(3, 3)),
)


@pytest.mark.wide
def test_agrees_with_float64(tmp_path: Path) -> None:
    """Seven workgroups walk over two blocks of columns of 13 whole products, then of three in two parts.

    A part has a block of 64 positions, so that the reduction is padded to 128.
    """
    (text,) = PROGRAM.ptx("sm_90a", tmp_path)
    kernels = Kernel.by_stage(text)
    image, filters, bias = PROGRAM.arguments()
    packing = SplitPacking(SHAPE, SCHEDULE)
    weights = packing.pack_filters(filter_transform(filters.astype(np.float64), SHAPE.decomposition))
    tiles = 2 * 5 * 4
    # Both lie in one piece of memory.
    counts = [np.prod(extents) for extents in (packing.input_extents(), packing.product_extents())]
    memory = np.full(sum(counts), np.nan, np.float32)
    result = np.full((2, 9, 8, 72), np.nan, np.float32)
    assert packing.product_extents() == (13 + 3 * 2, 64, 128)
    per_workgroup = kernels["input"].threads // packing.tile_threads
    kernels["input"].run([image, memory], ((i, 0) for i in range(-(-tiles // per_workgroup))))
    kernels["products"].run([memory, weights, memory], ((i,) for i in range(7)))
    products = memory[-counts[1] :].reshape(packing.product_extents())
    assert not np.isnan(products[:, :tiles, :72]).any()
    quads = transform_grid(packing.filter_quads, channels_first=False)
    rows, columns = (extent.known or 0 for extent in quads.workgroups(Index(tiles)))
    kernels["output"].run([memory, bias, result], itertools.product(range(rows), range(columns)))
    expect_within(result, PROGRAM.expected(image, filters, bias), PROGRAM.bound())
