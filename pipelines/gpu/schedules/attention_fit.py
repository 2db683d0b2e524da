"""Which schedule attention has on a target, the only one that there is for it."""

from __future__ import annotations

from dataclasses import replace

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.passes.match.products.attention import AttentionProblem
from iree.winograd.pipelines.gpu.device.matrix_unit import COPIED, MATRIX_ROWS, MFMA, MMA
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.gpu.device.warpgroup import WARPGROUP_THREADS
from iree.winograd.pipelines.machines.amd import FEW_WAVES, AmdFamily, amd_chip, amd_family

from .attention import (
    AttentionSchedule,
    MatrixAttentionSchedule,
    MultiplyAddAttentionSchedule,
    WarpgroupAttentionSchedule,
)
from .matrix import ROUNDED_PRODUCTS, SPLIT_PRODUCTS

MOST_WARPS = 4
"""Of a workgroup on matrix units, which share keys and values. As many are on each part of a multiprocessor
as if there were workgroups of their own."""
_MOVED = 1.5
"""What moving keys and values to shared memory takes, times what a warpgroup does with them."""
_MOVED_BESIDE = 0.44
"""The same of 49 to 64 channels, of blocks that come while other workgroups of a multiprocessor multiply."""
_ALONE = 1.15
"""What a workgroup takes there that is the only one of a multiprocessor, times what it would take beside
others."""
_RESIDENT_THREADS = 512, 256
"""For which there are registers where a thread has few scores and results, or many."""
_LONE_CHANNELS = 48
"""Up to which a warpgroup has as many that moves all keys of a block by itself, through its registers."""
_FEWEST_STAGES = 3
"""Of keys and values on sm_90a: one comes while warpgroups are at two others."""
_ROWS = (32, 16)
"""Queries of a workgroup that multiplies by multiply-adds."""
MULTIPROCESSORS = 132
"""Of a large GPU."""
_WORKGROUPS = 2 * MULTIPROCESSORS
"""Two for each of them."""
_ROWS_ON_CDNA = (64, 32, 16)
_LLVMS_WAVE_ON_RDNA, _MESAS_WAVE = 32, 64
"""Threads, of workgroups of as many at least."""
_STAGE_PARTS = (1, 2, 4)


def attention_schedule(problem: AttentionProblem, target: GpuTarget) -> AttentionSchedule | None:
    """One that there is memory for on the target; None where there is none, or threads lack registers."""
    unit = target.matrix_unit
    candidates: list[AttentionSchedule] = []
    if target.has_warpgroup_products and multiplies_chunks(problem):
        candidates += _of_warpgroups(problem, target)
    if unit is MMA:
        most = min(MOST_WARPS, ceil_div(problem.scores.rows, MATRIX_ROWS))
        # TF32 has all numbers of half precision.
        products = ROUNDED_PRODUCTS if problem.half is not None else SPLIT_PRODUCTS
        candidates += [MatrixAttentionSchedule(warps, products) for warps in range(most, 0, -1)]
    family = amd_family(target.architecture)
    if family is not None and family.is_cdna:
        return _on_cdna(problem, target, family)
    by_multiply_adds = [MultiplyAddAttentionSchedule(rows) for rows in _ROWS]
    if family is not None:
        by_multiply_adds = [_of_two_waves(each, problem, target, family) for each in by_multiply_adds]
    # Fewer queries where these would leave multiprocessors idle.
    candidates += [each for each in by_multiply_adds[:-1] if each.workgroups(problem) >= _WORKGROUPS]
    candidates += [by_multiply_adds[-1]]
    return next((each for each in candidates if _fits(each, problem, target)), None)


def multiplies_chunks(problem: AttentionProblem) -> bool:
    """Whether all rows are of half precision, and whole chunks of 16 bytes where they are in memory."""
    scores, mixtures = problem.scores, problem.mixtures
    rows = (
        (scores.left, scores.left.row_stride, scores.left.column_stride, scores.reduction),
        (scores.right, scores.right.column_stride, scores.right.row_stride, scores.reduction),
        (mixtures.right, mixtures.right.row_stride, mixtures.right.column_stride, mixtures.columns),
    )
    return problem.half is not None and all(
        neighbour == 1
        and not any(
            each % COPIED
            for each in (matrices.first, stride, length, *(stride for _, stride in matrices.batch))
        )
        for matrices, stride, neighbour, length in rows
    )


def _of_warpgroups(problem: AttentionProblem, target: GpuTarget) -> list[WarpgroupAttentionSchedule]:
    """Those of fewer or more warpgroups, which share keys, that first which is predicted to take least.

    Four of them, and blocks of 64 keys, take 157 us of 16 heads of 4096 tokens and 40 channels on an H200,
    190 with a fourth stage, two of them with blocks of 128 keys 238. Of 80 channels a fourth stage saves 4%.
    Of 128 channels blocks of 128 keys take 48.4 us of 32 heads of 1024 tokens where those of 64 take 53.9,
    but threads lack registers where the last block is a part of one.

    Of 64 channels a multiprocessor takes as long as it has queries, however its workgroups share these: 48
    heads of 196 tokens take 8.6 us by four warpgroups, 6.1 by two or one, 96 heads 9.0, 8.9 and 7.8. Of 1024
    tokens these take 80.9, 76.8 and 90.7, since a lone warpgroup has the keys moved for itself.
    """
    channels, columns = max(problem.scores.reduction, problem.mixtures.columns), problem.scores.columns
    has_few_results = channels <= 64
    if has_few_results and columns > 128:
        keys, most = 64, 4
    else:
        keys, most = 128 if channels <= 80 else 64, 2
    has_few = channels <= 80 and min(keys, columns) <= 80
    threads = _RESIDENT_THREADS[0 if has_few else 1]
    moves_beside = _LONE_CHANNELS < channels <= 64 and keys == 64

    def work(schedule: WarpgroupAttentionSchedule) -> float:
        """Of the multiprocessor that has most queries."""
        rounds = ceil_div(schedule.workgroups(problem), MULTIPROCESSORS)
        if not moves_beside:
            return rounds * (schedule.warpgroups + _MOVED)
        return rounds * (schedule.warpgroups + _MOVED_BESIDE) * (_ALONE if schedule.resident == 1 else 1.0)

    def scheduled(warpgroups: int) -> WarpgroupAttentionSchedule:
        resident = max(1, threads // (warpgroups * WARPGROUP_THREADS))
        if has_few_results and has_few and warpgroups == 1 and channels > _LONE_CHANNELS:
            resident -= 1
        schedule = WarpgroupAttentionSchedule(warpgroups, keys, resident)
        has_memory = resident * schedule.shared_memory_bytes(problem) <= target.shared_memory_bytes
        # Four are to stay close to each other.
        has_more_stages = has_memory and warpgroups < 4 and not moves_beside
        return schedule if has_more_stages else replace(schedule, stages=_FEWEST_STAGES)

    found = sorted(map(scheduled, range(most, 0, -1)), key=work)
    has_whole_blocks = 80 < channels <= 128 and columns % 128 == 0 and not problem.masks
    if has_whole_blocks and found[0].warpgroups == 2:
        found.insert(0, WarpgroupAttentionSchedule(2, 128, stages=_FEWEST_STAGES))
    return found


def _on_cdna(problem: AttentionProblem, target: GpuTarget, family: AmdFamily) -> AttentionSchedule | None:
    """The one by which the compute unit that has most queries takes least, with queries in shared memory if
    that is as good."""
    chip = amd_chip(target.architecture)
    assert chip is not None

    def preference(schedule: MultiplyAddAttentionSchedule) -> tuple[float, bool]:
        most = ceil_div(schedule.workgroups(problem), chip.compute_units) * schedule.moved_quads(problem)
        kept = 1.0 if waves_by_sharing(schedule, problem, family) >= 2 else FEW_WAVES
        return most / kept, not schedule.shares_queries

    candidates = (
        MultiplyAddAttentionSchedule(rows, shares_queries)
        for rows in _ROWS_ON_CDNA
        for shares_queries in (True, False)
    )
    fitting = [each for each in candidates if _fits(each, problem, target)]
    return min(fitting, key=preference, default=None)


def _of_two_waves(
    schedule: MultiplyAddAttentionSchedule, problem: AttentionProblem, target: GpuTarget, family: AmdFamily
) -> MultiplyAddAttentionSchedule:
    """The schedule on RDNA, its keys and values in as few parts as leave a SIMD two waves."""
    threads = _LLVMS_WAVE_ON_RDNA if target.orders_steps else _MESAS_WAVE
    parts = (replace(schedule, stage_parts=each) for each in _STAGE_PARTS)
    fitting = (
        each
        for each in parts
        if each.has_parts(problem) and waves_by_sharing(each, problem, family, threads) >= 2
    )
    return next(fitting, schedule)


def waves_by_sharing(
    schedule: AttentionSchedule, problem: AttentionProblem, family: AmdFamily, threads: int = MFMA.threads
) -> int:
    """Those of so many threads of a SIMD for whose workgroups its compute unit has shared memory."""
    workgroups = family.shared_memory_bytes // schedule.shared_memory_bytes(problem)
    return workgroups * ceil_div(schedule.threads, threads) // family.simds


def _fits(schedule: AttentionSchedule, problem: AttentionProblem, target: GpuTarget) -> bool:
    if not schedule.has_registers(problem) or schedule.threads > target.max_threads:
        return False
    return schedule.shared_memory_bytes(problem) <= target.shared_memory_bytes
