"""Schedules of separate kernels of transforms and products on a GPU, among which one is chosen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.gpu.device.matrix_unit import MFMA
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.gpu.schedules.fit import fits
from iree.winograd.pipelines.gpu.schedules.gemm import GemmSchedule, MfmaGemmSchedule
from iree.winograd.pipelines.machines.amd import AmdFamily, amd_family
from iree.winograd.pipelines.machines.model import GpuMachine
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .rates import DUAL_ISSUING_THREADS, has_two_waves, multiply_add_rates
from .representative import representative

GEMM_SCHEDULES = (
    GemmSchedule(128, 128, 16),
    GemmSchedule(128, 64, 16),
    GemmSchedule(64, 64, 16),
    GemmSchedule(64, 32, 16, thread_rows=8, thread_columns=4),
    GemmSchedule(32, 32, 16, thread_rows=4, thread_columns=4),
)
"""From the one that reads its operands most seldom to the one that wastes least of small products."""
LARGE_THREAD_SCHEDULES = (
    GemmSchedule(128, 128, 8, thread_rows=16),
    GemmSchedule(128, 128, 16, thread_rows=16),
)
"""For GPUs whose shared memory bounds the others: of AMD. Threads of the first load one operand each."""
SMALL_RDNA_SCHEDULES = (
    GemmSchedule(64, 32, 16),
    GemmSchedule(32, 32, 16, thread_rows=8, thread_columns=4),
)
"""For RDNA, of one warp: shared memory bounds threads of fewer sums."""
MFMA_GEMM_SCHEDULES = (
    MfmaGemmSchedule(128, 128, 16),
    MfmaGemmSchedule(64, 64, 16, thread_rows=8, thread_columns=4),
    MfmaGemmSchedule(32, 32, 16, thread_rows=4, thread_columns=4),
)
"""On matrix units of CDNA: a SIMD has room for two warps of each."""
MANY_SUMS = 64
"""Of a thread."""
MANY_THREADS = 256
"""Of a workgroup, which has registers for 128 of each where two workgroups are resident."""
UNROLLED_BLOCKS = 2
"""Of the reduction, of which nothing is left of the loop over them."""
RESIDENT_WORKGROUPS = 8
"""Of the smallest, for each multiprocessor: enough to hide each other's latency."""
REDUCTION_PARTS = (2, 4, 8, 16)


def gemm_schedules(shape: ConvolutionShape, target: GpuTarget, machine: GpuMachine) -> Iterator[GemmSchedule]:
    """The schedules of separate kernels that keep the target's limits.

    The reduction is split where the machine lacks workgroups, into parts of at least four blocks.
    """
    rows = representative(shape).images * prod(shape.tiles_per_image)
    columns = shape.group_outputs
    products = shape.transform_size * shape.groups
    for schedule in _gemm_blocks(target, machine):
        if not fits(schedule, target, shape.element_types) or _spills_unrolled(shape, target, schedule):
            continue
        yield schedule
        workgroups = (
            ceil_div(rows, schedule.block_rows) * ceil_div(columns, schedule.block_columns) * products
        )
        for parts in REDUCTION_PARTS:
            is_long = shape.reduction >= 4 * parts * schedule.block_reduction
            if is_long and workgroups * parts <= RESIDENT_WORKGROUPS * machine.multiprocessors:
                yield replace(schedule, reduction_parts=parts)


def _spills_unrolled(shape: ConvolutionShape, target: GpuTarget, schedule: GemmSchedule) -> bool:
    """Whether nothing is left of the loop over the reduction, and threads then lack registers.

    56 x 56 x 32 to 128 channels at batch 32 took 122 us so on an H200, where its bytes take 15.
    """
    blocks = ceil_div(shape.reduction, schedule.block_reduction)
    has_few_registers = target.residency_attribute is not None and schedule.threads >= MANY_THREADS
    return has_few_registers and blocks == UNROLLED_BLOCKS and schedule.sums >= MANY_SUMS


def _gemm_blocks(target: GpuTarget, machine: GpuMachine) -> Iterator[GemmSchedule]:
    """Those that are for the machine, as the target's compiler has to have them."""
    family = amd_family(machine.name)
    is_llvms = target.orders_steps or (family is not None and family.is_cdna)
    small = () if family is None or family.is_cdna else SMALL_RDNA_SCHEDULES
    for schedule in (*GEMM_SCHEDULES, *LARGE_THREAD_SCHEDULES, *small):
        if (schedule.thread_rows, schedule.thread_columns) not in multiply_add_rates(machine):
            continue
        # LLVM moves products behind the branch of threads that load one operand, and keeps their operands.
        if is_llvms and schedule.splits_loads and schedule.sums >= MANY_SUMS:
            continue
        # Matrix units' schedules have room for two warps.
        if target.matrix_unit == MFMA and not has_two_waves(schedule, machine):
            continue
        if target.orders_steps:
            yield replace(schedule, ordered_steps=1)
        elif family is AmdFamily.RDNA3 and schedule.threads == DUAL_ISSUING_THREADS:
            yield replace(schedule, alternating_rows=2)
        else:
            yield schedule
    if target.matrix_unit == MFMA:
        yield from MFMA_GEMM_SCHEDULES
