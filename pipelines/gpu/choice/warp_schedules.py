"""Schedules of products on matrix units that a warp uses by itself, among which one is chosen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.gpu.schedules.matrix import ROUNDED_PRODUCTS, MatrixSchedule
from iree.winograd.pipelines.gpu.schedules.split import (
    CooperativeSchedule,
    MfmaSchedule,
    SplitSchedule,
    WmmaRdna4Schedule,
    WmmaSchedule,
)
from iree.winograd.pipelines.machines.amd import AmdFamily, amd_family
from iree.winograd.pipelines.machines.model import GpuMachine
from iree.winograd.pipelines.problems.shape import ConvolutionShape

SPLIT_SCHEDULES = (
    SplitSchedule(64, 64, 32, 32, stages=4, resident_workgroups=4),
    SplitSchedule(64, 64, 32, 32, stages=3),
    SplitSchedule(64, 64, 32, 32, stages=2),
    SplitSchedule(32, 64, 16, 32, stages=4, resident_workgroups=4),
    SplitSchedule(32, 32, 16, 16, stages=4, resident_workgroups=4),
)
"""From the one that is the fastest in most cases; the next ones need less shared memory, the last ones waste
less of small products."""
COOPERATIVE_SCHEDULES = (
    CooperativeSchedule(128, 128, 64, 64, stages=2),
    CooperativeSchedule(128, 128, 64, 64, stages=2, summed_block=128),
    CooperativeSchedule(96, 128, 48, 64, stages=2, summed_block=64),
    CooperativeSchedule(64, 64, 32, 32, stages=2, summed_block=64),
)
"""The same through Vulkan, from the fastest to the most accurate, the last one for small products.

A thread has registers for all sums of 64 x 64 of a warp once, for those of a block beside those of all blocks
only of 48 x 64: it saves some of them in each block of 128, which is half as long as one of 64 otherwise."""
AMD_COOPERATIVE_SCHEDULES = (
    CooperativeSchedule(128, 128, 32, 64, stages=2, summed_block=64),
    CooperativeSchedule(64, 64, 32, 32, stages=2, summed_block=64),
)
"""The same of AMD's GPUs, where larger parts of a warp spill registers."""
AMD_SCHEDULES = (
    MfmaSchedule(64, 64, 32, 32, stages=2, summed_block=32),
    MfmaSchedule(64, 64, 16, 32, stages=2, summed_block=32),
    WmmaSchedule(64, 64, 32, 32, stages=2, summed_block=32),
    WmmaRdna4Schedule(64, 64, 32, 32, stages=2, summed_block=32),
)
"""The same through HIP. There was no such GPU to measure others on."""
CDNA4_SCHEDULES = (
    MfmaSchedule(96, 128, 48, 64, stages=2, summed_block=32, terms=32),
    MfmaSchedule(64, 128, 32, 64, stages=2, summed_block=32, terms=32),
    MfmaSchedule(64, 64, 32, 32, stages=2, summed_block=32, terms=32),
)
"""The same for CDNA 4, whose matrix units are twice as fast for the same bandwidth of shared memory, of which
there is more. With 64 x 64 sums of a warp a SIMD has registers for one."""
MANY_WARP_SUMS, UNROLLED_STAGES = 2048, 3
"""Of a warp on matrix units, and stages whose loop is unrolled: with more a SIMD has room for two warps."""


def warp_schedules(machine: GpuMachine) -> Iterator[MatrixSchedule]:
    """Those of split and of rounded numbers that are for the machine."""
    for each in SPLIT_SCHEDULES:
        yield replace(each, summed_block=each.block_reduction)
        yield replace(each, products=ROUNDED_PRODUCTS)
    family = amd_family(machine.name)
    cooperative = COOPERATIVE_SCHEDULES if family is None else AMD_COOPERATIVE_SCHEDULES
    others = CDNA4_SCHEDULES if family is AmdFamily.CDNA4 else AMD_SCHEDULES
    for other in (*cooperative, *others):
        yield other
        yield replace(other, products=ROUNDED_PRODUCTS, summed_block=None)


def unrolls_stages(shape: ConvolutionShape, schedule: MatrixSchedule) -> bool:
    """Whether LLVM unrolls the loop over the stages of CDNA 4's largest blocks, whose registers it then is
    short of."""
    if not isinstance(schedule, MfmaSchedule) or schedule.warp_rows * schedule.warp_columns <= MANY_WARP_SUMS:
        return False
    return ceil_div(shape.reduction, schedule.block_reduction) <= UNROLLED_STAGES
