"""Schedules of implicit GEMM on a GPU, among which one is chosen."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, product

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.gpu.device.memory import QUAD
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.gpu.device.warpgroup import SPARE_REGISTERS, WARPGROUP_ROWS, registers_of
from iree.winograd.pipelines.gpu.schedules.fit import kernel_misfit
from iree.winograd.pipelines.gpu.schedules.implicit_gemm import ImplicitGemmSchedule
from iree.winograd.pipelines.gpu.schedules.matrix import MATRIX_TERMS, ROUNDED_PRODUCTS, SPLIT_PRODUCTS
from iree.winograd.pipelines.machines.model import GpuMachine
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .rounded_products import multiplying_bf16

IMPLICIT_GEMM_COLUMNS = {SPLIT_PRODUCTS: (64, 32), ROUNDED_PRODUCTS: (64, 32, 128)}
"""Of a block, by the products that there are for each of fp32's."""
IMPLICIT_GEMM_WARPGROUPS = (4, 3, 2, 1)
SUMMED_PRODUCTS = 64
"""Large products that matrix units sum at least: with half as many errors are a tenth less."""
SUMMED_BLOCKS = 9
"""Of a patch, at most: the assembler keeps sums of several before it adds them, while it has registers."""
CHANNEL_BLOCKS = (1, 2, 4, 8, 16)
RECOMPUTED_PLACES = 24
"""Of what a thread loads, which take no registers: 14 x 14 x 192 to 192 spills nothing, and took an H200 16
us by three warpgroups, 35 by two."""


def implicit_gemm_schedules(
    shape: ConvolutionShape, target: GpuTarget, machine: GpuMachine
) -> Iterator[ImplicitGemmSchedule]:
    """As many workgroups as there are multiprocessors, as few blocks of channels as there is room for."""
    blocks = ((products, each) for products, columns in IMPLICIT_GEMM_COLUMNS.items() for each in columns)
    for (products, columns), warpgroups in product(blocks, IMPLICIT_GEMM_WARPGROUPS):
        walking = max(1, machine.multiprocessors // ceil_div(shape.group_outputs, columns))
        blocked = (
            ImplicitGemmSchedule(
                WARPGROUP_ROWS,
                columns,
                warpgroups,
                walking_workgroups=walking,
                channel_blocks=channel_blocks,
                products=products,
                summed_block=_summed_products(shape, channel_blocks) if products == SPLIT_PRODUCTS else None,
            )
            for channel_blocks in CHANNEL_BLOCKS
        )
        blocked = (multiplying_bf16(each, shape) for each in blocked)
        fitting = (
            each
            for each in blocked
            if kernel_misfit(shape, target, each) is None and _has_registers(shape, each)
        )
        yield from islice(fitting, 1)


def _summed_products(shape: ConvolutionShape, channel_blocks: int) -> int:
    """Large products that matrix units sum, of all those of a block of channels."""
    of_a_block = ceil_div(shape.reduction, SUMMED_BLOCKS * channel_blocks * MATRIX_TERMS) * MATRIX_TERMS
    return max(SUMMED_PRODUCTS, of_a_block)


def _has_registers(shape: ConvolutionShape, schedule: ImplicitGemmSchedule) -> bool:
    """Whether there are registers for the sums of all threads, and for what they load beside."""
    patch = schedule.patch(shape)
    assert patch is not None
    kept = schedule.sums
    if patch.slots == 1 and schedule.channel_blocks == 1:
        # There are no sums yet when it is loaded.
        places = patch.scattered_loads if patch.scattered_loads > RECOMPUTED_PLACES else 0
        kept = max(kept, QUAD * patch.loads + places)
    elif patch.slots == 1:
        if shape.unknown_sizes:
            # 128 channels of 3 x 3 in two or four blocks had 22 and 58 registers of places spilled.
            return False
        # Addresses of the next block, too, and whether it has them.
        kept += QUAD * patch.loads + 3 * patch.scattered_loads
    return kept + SPARE_REGISTERS <= registers_of(schedule.threads)
