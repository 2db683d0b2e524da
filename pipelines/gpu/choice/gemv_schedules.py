"""Schedules of products of few rows on a GPU, among which one is chosen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.gpu.schedules.fit import kernel_misfit
from iree.winograd.pipelines.gpu.schedules.gemv import GEMV_COLUMNS, MAX_GEMV_ROWS, GemvSchedule
from iree.winograd.pipelines.machines.model import GpuMachine
from iree.winograd.pipelines.problems.shape import ConvolutionShape

GEMV_ROWS = (1, 2, 4, MAX_GEMV_ROWS)
"""Of a block, all rows of a layer."""
GEMV_WORKGROUPS = (1, 2, 4)
"""For each multiprocessor."""


def gemv_schedules(shape: ConvolutionShape, target: GpuTarget, machine: GpuMachine) -> Iterator[GemvSchedule]:
    """Those of few rows whose numbers are of half precision, as the matrix's are.

    The reduction is split into parts that are as long as each other, but for the last one.
    """
    if shape.exact_type is None or shape.tiles is None or not GemvSchedule.suits(shape):
        return
    rows = next(each for each in GEMV_ROWS if shape.tiles <= each)
    whole = GemvSchedule(rows, GEMV_COLUMNS, multiplied_type=shape.exact_type)
    if kernel_misfit(shape, target, whole) is not None:
        return
    steps, columns = (
        ceil_div(shape.reduction, whole.block_reduction),
        ceil_div(shape.group_outputs, GEMV_COLUMNS),
    )
    wanted = (ceil_div(each * machine.multiprocessors, columns) for each in GEMV_WORKGROUPS)
    parts = {ceil_div(steps, ceil_div(steps, min(each, steps))) for each in wanted}
    yield from (replace(whole, reduction_parts=each) for each in sorted(parts))
