"""Schedules of products of few rows on a GPU, among which one is chosen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.gpu.schedules.fit import fits, kernel_misfit
from iree.winograd.pipelines.gpu.schedules.gemv import MAX_GEMV_ROWS, GemvSchedule, gemv_columns
from iree.winograd.pipelines.machines.model import GpuMachine
from iree.winograd.pipelines.problems.shape import ConvolutionShape

GEMV_ROWS = (1, 2, 4, MAX_GEMV_ROWS)
"""Of a block, all rows of a layer if these are no more."""
GEMV_WORKGROUPS = (1, 2, 4)
"""For each multiprocessor."""
GEMV_STEPS = ((1, 0), (1, 1), (1, 2), (2, 0), (4, 0))
"""In which a workgroup reads the matrix: a factor of those of most warps, and how many more."""
MAX_GEMV_WARPS = 16


def gemv_schedules(shape: ConvolutionShape, target: GpuTarget, machine: GpuMachine) -> Iterator[GemvSchedule]:
    """Those of few rows, on matrix units where their numbers and the matrix's are of half precision.

    The reduction is split into parts that are as long as each other, but for the last one.
    """
    if shape.tiles is None or not GemvSchedule.suits(shape, shape.exact_type):
        return
    rows = next((each for each in GEMV_ROWS if shape.tiles <= each), MAX_GEMV_ROWS)
    # Of those that take as long, wide blocks read rows least, and many warps have most loads under way.
    for columns, (factor, more) in product(reversed(gemv_columns(shape.exact_type)), GEMV_STEPS):
        single = GemvSchedule(rows, columns, shape.exact_type, 1)
        least = ceil_div(shape.reduction, single.block_reduction * MAX_GEMV_WARPS)
        warps = ceil_div(shape.reduction, single.block_reduction * (factor * least + more))
        whole = replace(single, warps=warps)
        if not fits(whole, target, shape.element_types) or kernel_misfit(shape, target, whole) is not None:
            continue
        steps = ceil_div(shape.reduction, whole.block_reduction)
        blocks = ceil_div(shape.group_outputs, columns) * ceil_div(shape.tiles, rows)
        wanted = (ceil_div(each * machine.multiprocessors, blocks) for each in GEMV_WORKGROUPS)
        parts = {ceil_div(steps, ceil_div(steps, min(each, steps))) for each in wanted}
        yield from (replace(whole, reduction_parts=each) for each in sorted({1, *parts}))
