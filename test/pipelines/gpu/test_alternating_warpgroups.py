"""Split numbers by warpgroups that take turns: what the text of kernels computes, by an interpreter."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from agreement import expect_within
from iree.winograd.dialect.decomposition import decompose
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.gpu.packing.split import SplitPacking
from iree.winograd.pipelines.gpu.schedules.warpgroup import WarpgroupSchedule
from iree.winograd.pipelines.problems.shape import ConvolutionShape
from ptx_interpreter import Kernel
from ptxas import spilled_bytes
from scheduled_program import ScheduledProgram
from wide import wide

SCHEDULE = WarpgroupSchedule(
    64, 128, summed_block=64, stages=9, walking_workgroups=3, alternating_warpgroups=2
)
"""By blocks of sums: 192 of a thread."""
PROGRAM = ScheduledProgram((11, 9), 80, 160, (1, 1), (1, 1), (1, 1), batch=2, schedule=SCHEDULE)
SHAPE = ConvolutionShape.decomposed(
    ConvolutionProblem.parse(
        "2x11x9x80->160 kernel 1x1 stride 1x1 dilation 1x1 padding 0x0 0x0 groups 1 f32"
    ),
    decompose((1, 1), (1, 1), part_size=(1, 1)),
)


@pytest.mark.parametrize(
    "schedule", [SCHEDULE, *wide([replace(SCHEDULE, block_columns=64, summed_block=None)])]
)
def test_agrees_with_float64(schedule: WarpgroupSchedule, tmp_path: Path) -> None:
    """Six warpgroups have eight or twelve blocks, of which the last rows and columns aren't full."""
    program = replace(PROGRAM, schedule=schedule)
    (text,) = program.ptx("sm_90a", tmp_path)
    assert not any(spilled_bytes(tmp_path, "sm_90a").values())
    kernels = Kernel.by_stage(text)
    image, filters, bias = program.arguments()
    packing = SplitPacking(SHAPE, schedule)
    weights = packing.pack_filters(filters.astype(np.float64).reshape(1, 80, 160))
    blocks = -(-(2 * 11 * 9) // 64)
    rows = np.full((blocks, *packing.input_extents()), np.nan, np.float32)
    result = np.full((2, 11, 9, 160), np.nan, np.float32)
    per_workgroup = kernels["input"].threads // packing.tile_threads
    kernels["input"].run([image, rows], ((i, 0) for i in range(-(-(2 * 11 * 9) // per_workgroup))))
    kernels["direct"].run([rows, weights, bias, result], ((i,) for i in range(3)))
    expect_within(result, program.expected(image, filters, bias), program.bound())


def test_more_rows_do_not_alternate() -> None:
    with pytest.raises(ValueError, match="warpgroups alternate over whole sums"):
        replace(SCHEDULE, block_rows=128, block_columns=64)
