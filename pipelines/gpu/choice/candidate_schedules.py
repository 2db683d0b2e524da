"""The schedules among which that of a convolution on a GPU is chosen: which are worth predicting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice, product
from math import prod
from typing import TypeVar

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.emission.numbers.bf16 import BF16
from iree.winograd.pipelines.gpu.device.matrix_unit import MFMA
from iree.winograd.pipelines.gpu.device.memory import QUAD
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.gpu.device.warpgroup import SPARE_REGISTERS, WARPGROUP_ROWS, registers_of
from iree.winograd.pipelines.gpu.packing.split import SplitPacking
from iree.winograd.pipelines.gpu.schedules.columns import (
    RESIDENT_THREADS_AHEAD,
    GpuDepthwiseSchedule,
    GroupedSchedule,
    elements_read,
)
from iree.winograd.pipelines.gpu.schedules.fit import GpuSchedule, fits, is_depthwise, kernel_misfit
from iree.winograd.pipelines.gpu.schedules.fused import FusedSchedule
from iree.winograd.pipelines.gpu.schedules.gemm import GemmSchedule, MfmaGemmSchedule
from iree.winograd.pipelines.gpu.schedules.gemv import GEMV_COLUMNS, MAX_GEMV_ROWS, GemvSchedule
from iree.winograd.pipelines.gpu.schedules.implicit_gemm import ImplicitGemmSchedule
from iree.winograd.pipelines.gpu.schedules.matrix import (
    MATRIX_TERMS,
    ROUNDED_PRODUCTS,
    SPLIT_PRODUCTS,
    MatrixSchedule,
)
from iree.winograd.pipelines.gpu.schedules.split import (
    CooperativeSchedule,
    MfmaSchedule,
    SplitSchedule,
    WmmaRdna4Schedule,
    WmmaSchedule,
)
from iree.winograd.pipelines.gpu.schedules.warpgroup import WarpgroupSchedule
from iree.winograd.pipelines.gpu.schedules.weight_gradient import (
    STAGE_TILES,
    GpuWeightGradientSchedule,
    HalfWeightGradientSchedule,
    MatrixWeightGradientSchedule,
    MultiplyAddWeightGradientSchedule,
)
from iree.winograd.pipelines.machines.amd import AmdFamily, amd_family
from iree.winograd.pipelines.machines.model import GpuMachine
from iree.winograd.pipelines.problems.shape import ConvolutionShape, WeightGradientShape

from .cost_model import column_threads
from .rates import DUAL_ISSUING_THREADS, fused_rates, has_two_waves, multiply_add_rates
from .representative import representative

Rounding = TypeVar("Rounding", bound=MatrixSchedule)

GEMM_SCHEDULES = (
    GemmSchedule(128, 128, 16),
    GemmSchedule(128, 64, 16),
    GemmSchedule(64, 64, 16),
    GemmSchedule(64, 32, 16, thread_rows=8, thread_columns=4),
    GemmSchedule(32, 32, 16, thread_rows=4, thread_columns=4),
)
"""From the one that reads its operands most seldom to the one that wastes least of small products."""
SPLIT_SCHEDULES = (
    SplitSchedule(64, 64, 32, 32, stages=4, resident_workgroups=4),
    SplitSchedule(64, 64, 32, 32, stages=3),
    SplitSchedule(64, 64, 32, 32, stages=2),
    SplitSchedule(32, 64, 16, 32, stages=4, resident_workgroups=4),
    SplitSchedule(32, 32, 16, 16, stages=4, resident_workgroups=4),
)
"""From the one that is the fastest in most cases; the next ones need less shared memory, the last ones waste
less of small products."""
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
WARPGROUP_SCHEDULES = (
    WarpgroupSchedule(64, 64, stages=4, resident_workgroups=3),
    WarpgroupSchedule(64, 128, stages=4, resident_workgroups=2),
    WarpgroupSchedule(128, 128, stages=6),
)
"""For rounded numbers. As many of their workgroups as are resident walk over all blocks. The first has least
columns."""
GATHERING_SCHEDULES = tuple(
    WarpgroupSchedule(
        rows,
        columns,
        products=ROUNDED_PRODUCTS,
        stages=stages,
        resident_workgroups=resident,
        copying_warps=copying_warps,
    )
    for rows, columns, stages, resident, copying_warps in (
        (128, 256, 4, 1, 4),
        (128, 192, 4, 1, 4),
        (128, 160, 5, 1, 4),
        (128, 128, 6, 1, 4),
        (128, 96, 3, 2, 2),
        (128, 64, 4, 2, 4),
        (64, 160, 3, 2, 4),
        (64, 128, 4, 2, 4),
        (64, 96, 4, 3, 2),
        (64, 64, 4, 3, 4),
    )
)
"""For direct convolutions of images whose numbers are multiplied as they are: what fills shared memory, and
leaves threads registers for their sums."""
GATHERING_PARTS = (2, 3, 4, 5, 6, 7, 8, 9, 12, 14)
PART_STAGES = 4
"""Of a part at least."""
SPLIT_WARPGROUP_SCHEDULES = (
    WarpgroupSchedule(128, 128, summed_block=64, stages=6),
    WarpgroupSchedule(128, 112, summed_block=64, stages=7),
    WarpgroupSchedule(64, 64, summed_block=64, stages=4, resident_workgroups=3),
    WarpgroupSchedule(64, 64, summed_block=64, stages=12),
)
"""For split numbers: one that reads its operands most seldom, one whose blocks may divide work more evenly
among multiprocessors, one that wastes less of small products, and one whose workgroups wait less where there
are few of them."""
WARPGROUP_PARTS = (2, 3, 4, 5, 6, 8, 11)
"""Of the reduction, for these."""
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
_COLUMN_SIZES = [
    (threads, quads, columns)
    for threads in (128, 64, 256)
    for quads in (16, 8, 32)
    for columns in (1, 2, 4, 7, 8)
]
"""Threads, quads and columns. Of those that are predicted to be equally fast the first is taken."""
DEPTHWISE_SCHEDULES = tuple(GpuDepthwiseSchedule(*each) for each in _COLUMN_SIZES)
AHEAD_SCHEDULES = tuple(GpuDepthwiseSchedule(128, 16, columns, rows_ahead=2) for columns in (1, 2))
"""For few threads, which wait for their loads more than they compute."""
MAX_ROWS_AHEAD, MAX_ELEMENTS_AHEAD = 7, 9
"""Rows of taps, and what one reads of neighbouring outputs: all of it is straight code."""
GROUPED_SCHEDULES = tuple(GroupedSchedule(*each) for each in _COLUMN_SIZES)
MANY_SUMS = 64
"""Of a thread."""
MANY_WARP_SUMS, UNROLLED_STAGES = 2048, 3
"""Of a warp on matrix units, and stages whose loop is unrolled: with more a SIMD has room for two warps."""
MANY_THREADS = 256
"""Of a workgroup, which has registers for 128 of each where two workgroups are resident."""
UNROLLED_BLOCKS = 2
"""Of the reduction, of which nothing is left of the loop over them."""
RESIDENT_WORKGROUPS = 8
"""Of the smallest, for each multiprocessor: enough to hide each other's latency."""
REDUCTION_PARTS = (2, 4, 8, 16)
GEMV_ROWS = (1, 2, 4, MAX_GEMV_ROWS)
"""Of a block, all rows of a layer."""
GEMV_WORKGROUPS = (1, 2, 4)
"""For each multiprocessor."""
TILE_BLOCKS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""That the tiles of all images are summed in."""
MATRIX_GRADIENT_BLOCKS = ((64, 64, 32, 32), (32, 32, 16, 16))
"""Rows and columns of a workgroup and of a warp, for gradients of filters on matrix units: larger ones, with
more sums of a thread or fewer workgroups on a multiprocessor, took 1.1 to 1.6 times as long on an H200."""

HALF_GRADIENT_BLOCKS = ((128, 128, 64, 32, 1), (128, 64, 32, 32, 2), (64, 64, 32, 32, 3))
"""Rows and columns of a workgroup and of a warp, and the workgroups that have registers, for those of half
precision. Larger ones read images less often."""


def schedules(shape: ConvolutionShape, target: GpuTarget, machine: GpuMachine) -> Iterator[GpuSchedule]:
    """All schedules for a convolution that keep the target's limits."""
    if isinstance(shape, WeightGradientShape):
        yield from weight_gradient_schedules(shape, target, machine)
        return
    if is_depthwise(shape):
        yield from (each for each in DEPTHWISE_SCHEDULES if fits(each, target, shape.element_types))
        yield from _ahead(shape, target, machine)
        return
    yield from gemm_schedules(shape, target, machine)
    yield from gemv_schedules(shape, target, machine)
    yield from matrix_schedules(shape, target, machine)
    yield from _fused(shape, target, machine)
    yield from (each for each in GROUPED_SCHEDULES if kernel_misfit(shape, target, each) is None)


def _ahead(shape: ConvolutionShape, target: GpuTarget, machine: GpuMachine) -> Iterator[GpuDepthwiseSchedule]:
    """Those that have rows of taps ahead, where all threads are resident at once."""
    rows = prod(shape.kernel_size[:-1])
    for schedule in AHEAD_SCHEDULES:
        elements = len(elements_read(shape.decomposition, schedule.columns))
        is_short = 1 < rows <= MAX_ROWS_AHEAD and elements <= MAX_ELEMENTS_AHEAD
        threads = column_threads(representative(shape), schedule)
        is_small = threads <= RESIDENT_THREADS_AHEAD * machine.multiprocessors
        if is_short and is_small and kernel_misfit(shape, target, schedule) is None:
            yield schedule


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


def weight_gradient_schedules(
    shape: WeightGradientShape, target: GpuTarget, machine: GpuMachine
) -> Iterator[GpuWeightGradientSchedule]:
    """The schedules of a gradient of a filter that the target and its machine are for.

    Tiles are summed in blocks of about equal size.
    """
    if shape.tiles is None:
        return
    for gemm in GEMM_SCHEDULES:
        for block in _tile_blocks(shape.tiles, gemm.block_reduction):
            multiplied = MultiplyAddWeightGradientSchedule(
                gemm.block_rows,
                gemm.block_columns,
                block,
                gemm.block_reduction,
                gemm.thread_rows,
                gemm.thread_columns,
            )
            if kernel_misfit(shape, target, multiplied) is None:
                yield multiplied
    if machine.matrix_flops is None:
        return
    for rows, columns, warp_rows, warp_columns in MATRIX_GRADIENT_BLOCKS:
        for block in _tile_blocks(shape.tiles, STAGE_TILES):
            on_matrix_units = MatrixWeightGradientSchedule(rows, columns, block, warp_rows, warp_columns)
            if kernel_misfit(shape, target, on_matrix_units) is None:
                yield on_matrix_units
    if shape.exact_type is None:
        return
    for rows, columns, warp_rows, warp_columns, resident in HALF_GRADIENT_BLOCKS:
        for block in _tile_blocks(shape.tiles, STAGE_TILES):
            of_halves = HalfWeightGradientSchedule(
                rows,
                columns,
                block,
                warp_rows,
                warp_columns,
                resident_workgroups=resident,
                multiplied_type=shape.exact_type,
            )
            if kernel_misfit(shape, target, of_halves) is None:
                yield of_halves


def _tile_blocks(tiles: int, multiple: int) -> list[int]:
    """Sizes of blocks of tiles, multiples of a number, that leave each at least four of it."""
    steps = ceil_div(tiles, multiple)
    sizes = {ceil_div(steps, count) for count in TILE_BLOCKS if count == 1 or 4 * count <= steps}
    return [size * multiple for size in sorted(sizes, reverse=True)]


def matrix_schedules(
    shape: ConvolutionShape, target: GpuTarget, machine: GpuMachine
) -> Iterator[MatrixSchedule]:
    """The schedules of products on matrix units that the target and its machine are for."""
    if machine.matrix_flops is None:
        return
    # Wide blocks take longer to finish the results of direct convolutions than they gain.
    rounded = WARPGROUP_SCHEDULES[:1] if shape.transform_size == 1 else WARPGROUP_SCHEDULES
    gathering = [
        each for each in _gathering_schedules(shape, machine) if kernel_misfit(shape, target, each) is None
    ]
    candidates = (
        *(
            _multiplying_bf16(each, shape)
            for each in _matrix_schedules(shape, rounded, machine)
            if not gathering or not _is_whole(each)
        ),
        *gathering,
        *_implicit_gemm_schedules(shape, target, machine),
    )
    yield from (
        each
        for each in candidates
        if kernel_misfit(shape, target, each) is None and not _unrolls_stages(shape, each)
    )


def _is_whole(schedule: MatrixSchedule) -> bool:
    """Whether warpgroups sum whole products of rounded numbers, with a kernel before them."""
    is_rounded = isinstance(schedule, WarpgroupSchedule) and schedule.products == ROUNDED_PRODUCTS
    return is_rounded and schedule.reduction_parts == 1


def _multiplying_bf16(schedule: Rounding, shape: ConvolutionShape) -> Rounding:
    """The schedule as it is, or of rounded numbers the one that multiplies a convolution's bf16 as it is."""
    return _multiplying_as_is(schedule, shape) if shape.exact_type == BF16.name else schedule


def _multiplying_as_is(schedule: Rounding, shape: ConvolutionShape) -> Rounding:
    """The schedule as it is, or of rounded numbers the one that multiplies a convolution's without scales."""
    is_exact = shape.exact_type is not None and shape.transform_size == 1
    if not is_exact or schedule.products != ROUNDED_PRODUCTS or not schedule.unit.multiplies_bf16:
        return schedule
    return replace(schedule, multiplied_type=shape.exact_type)


def _unrolls_stages(shape: ConvolutionShape, schedule: MatrixSchedule) -> bool:
    """Whether LLVM unrolls the loop over the stages of CDNA 4's largest blocks, whose registers it then is
    short of."""
    if not isinstance(schedule, MfmaSchedule) or schedule.warp_rows * schedule.warp_columns <= MANY_WARP_SUMS:
        return False
    return ceil_div(shape.reduction, schedule.block_reduction) <= UNROLLED_STAGES


def _matrix_schedules(
    shape: ConvolutionShape, rounded: Sequence[WarpgroupSchedule], machine: GpuMachine
) -> Iterator[MatrixSchedule]:
    for each in SPLIT_SCHEDULES:
        yield replace(each, summed_block=each.block_reduction)
        yield replace(each, products=ROUNDED_PRODUCTS)
    family = amd_family(machine.name)
    cooperative = COOPERATIVE_SCHEDULES if family is None else AMD_COOPERATIVE_SCHEDULES
    others = CDNA4_SCHEDULES if family is AmdFamily.CDNA4 else AMD_SCHEDULES
    for other in (*cooperative, *others):
        yield other
        yield replace(other, products=ROUNDED_PRODUCTS, summed_block=None)
    for walking in (
        *SPLIT_WARPGROUP_SCHEDULES,
        *(replace(each, products=ROUNDED_PRODUCTS) for each in rounded),
    ):
        yield from _walking(shape, walking, WARPGROUP_PARTS, machine)


def _gathering_schedules(shape: ConvolutionShape, machine: GpuMachine) -> Iterator[WarpgroupSchedule]:
    """Those that gather stages from the image, if they can."""
    expected = representative(shape)
    for rounding in GATHERING_SCHEDULES:
        schedule = _multiplying_as_is(rounding, shape)
        packing = SplitPacking(expected, schedule)
        if packing.reads_image:
            # There is none but whole stages of the image.
            parts = [each for each in GATHERING_PARTS if packing.stages % each == 0]
            yield from _walking(shape, schedule, parts, machine)


def _walking(
    shape: ConvolutionShape, schedule: WarpgroupSchedule, parts: Sequence[int], machine: GpuMachine
) -> Iterator[WarpgroupSchedule]:
    """As many workgroups as are resident, and for few blocks also parts of their reduction."""
    expected = representative(shape)
    walking = schedule.resident_workgroups * machine.multiprocessors
    schedule = replace(schedule, walking_workgroups=walking)
    yield schedule
    packing = SplitPacking(expected, schedule)
    rows = ceil_div(expected.images * prod(expected.tiles_per_image), schedule.block_rows)
    blocks = rows * packing.column_blocks * packing.products
    for count in parts:
        if packing.stages >= PART_STAGES * count and blocks * count <= 2 * walking:
            yield replace(schedule, reduction_parts=count)


def _implicit_gemm_schedules(
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
        blocked = (_multiplying_bf16(each, shape) for each in blocked)
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
        # Addresses of the next block, too, and whether it has them.
        kept += QUAD * patch.loads + 3 * patch.scattered_loads
    return kept + SPARE_REGISTERS <= registers_of(schedule.threads)


def _fused(shape: ConvolutionShape, target: GpuTarget, machine: GpuMachine) -> Iterator[FusedSchedule]:
    for schedule in fused_rates(machine):
        blocks = len(shape.decomposition.views) * ceil_div(shape.group_inputs, schedule.block_reduction)
        # LLVM unrolls so short a loop, and spills a hundred registers.
        if target.orders_steps and blocks <= UNROLLED_BLOCKS and schedule.sums >= MANY_SUMS:
            continue
        if kernel_misfit(shape, target, schedule) is None:
            yield schedule
