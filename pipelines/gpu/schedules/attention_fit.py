"""Which schedule attention has on a target, the only one that there is for it."""

from __future__ import annotations

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.passes.match.attention import AttentionProblem
from iree.winograd.pipelines.gpu.device.matrix_unit import MATRIX_ROWS, MMA
from iree.winograd.pipelines.gpu.device.target import GpuTarget

from .attention import (
    AttentionSchedule,
    MatrixAttentionSchedule,
    MultiplyAddAttentionSchedule,
)
from .matrix import ROUNDED_PRODUCTS, SPLIT_PRODUCTS

MOST_WARPS = 4
"""Of a workgroup on matrix units, which share keys and values. As many are on each part of a multiprocessor
as if there were workgroups of their own."""
_ROWS = (32, 16)
"""Queries of a workgroup that multiplies by multiply-adds."""
_WORKGROUPS = 264
"""Two for each multiprocessor of a large GPU."""


def attention_schedule(problem: AttentionProblem, target: GpuTarget) -> AttentionSchedule | None:
    """One that there is memory for on the target; None where there is none, or threads lack registers."""
    unit = target.matrix_unit
    candidates: list[AttentionSchedule] = []
    if unit is MMA:
        most = min(MOST_WARPS, ceil_div(problem.scores.rows, MATRIX_ROWS))
        # TF32 has all numbers of half precision.
        products = ROUNDED_PRODUCTS if problem.holds_half else SPLIT_PRODUCTS
        candidates += [MatrixAttentionSchedule(warps, products) for warps in range(most, 0, -1)]
    by_multiply_adds = [MultiplyAddAttentionSchedule(rows) for rows in _ROWS]
    # Fewer queries where these would leave multiprocessors idle.
    candidates += [each for each in by_multiply_adds[:-1] if each.workgroups(problem) >= _WORKGROUPS]
    candidates += [by_multiply_adds[-1]]
    return next((each for each in candidates if _fits(each, problem, target)), None)


def _fits(schedule: AttentionSchedule, problem: AttentionProblem, target: GpuTarget) -> bool:
    if not schedule.has_registers(problem):
        return False
    return schedule.shared_memory_bytes(problem) <= target.shared_memory_bytes
