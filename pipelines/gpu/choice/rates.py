"""What the GPU kernels reach by their schedules: as measured on an H200, or by bounds on AMD's GPUs.

Nobody measured those. A bound is the part of the peak rate that the published rates of vector units and
shared memory leave the loop as AMD's compilers have it (`benchmarks.amd`); `REACHED` of it is expected, as it
is of NVIDIA's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.passes.match.convolutions.element_types import F32
from iree.winograd.pipelines.gpu.device.matrix_unit import COOPERATIVE, MFMA, MatrixUnit
from iree.winograd.pipelines.gpu.schedules.fused import FusedSchedule
from iree.winograd.pipelines.gpu.schedules.gemm import GemmSchedule, MfmaGemmSchedule
from iree.winograd.pipelines.gpu.schedules.matrix import SPLIT_PRODUCTS
from iree.winograd.pipelines.gpu.schedules.product import ProductSchedule
from iree.winograd.pipelines.gpu.schedules.split import (
    CooperativeSchedule,
    MfmaSchedule,
    SplitSchedule,
    WarpSchedule,
    WmmaRdna4Schedule,
    WmmaSchedule,
)
from iree.winograd.pipelines.gpu.schedules.warpgroup import WarpgroupSchedule
from iree.winograd.pipelines.gpu.schedules.weight_gradient import (
    GpuWeightGradientSchedule,
    HalfWeightGradientSchedule,
    MatrixWeightGradientSchedule,
    MultiplyAddWeightGradientSchedule,
)
from iree.winograd.pipelines.machines.amd import FEW_WAVES, AmdFamily, amd_family
from iree.winograd.pipelines.machines.model import GpuMachine
from iree.winograd.pipelines.problems.schedule import Schedule

PRODUCT_RATES = {(8, 8): 0.57, (8, 4): 0.44, (4, 4): 0.385}
"""The part of the peak rate that full multiprocessors reach, by the rows and columns of a thread."""


FASTER = 1.5
"""Times as fast as others that large products of split numbers are where layers gain by them."""
REACHED = 0.65
"""The part of bounds that is expected on AMD's GPUs."""
_BOUNDS_OF_RDNA2 = {(16, 8): 0.96, (8, 8): 0.95, (8, 4): 0.85, (4, 4): 0.80}
_BOUNDS_BY_SHARED_MEMORY = {(16, 8): 0.95, (8, 8): 0.88, (8, 4): 0.59, (4, 4): 0.40}
"""By the rows and columns of a thread. Shared memory moves 128 bytes in a cycle for as many multiply-adds as
a compute unit of CDNA, and of RDNA since its third, does; RDNA 2 does half as many."""
DUAL_ISSUING_THREADS = 32
"""Of a workgroup by Vulkan on RDNA since its third, which is one warp then: a thread does two multiply-adds
at a time whose operands are in different banks of registers. Larger workgroups have warps of 64."""
_BOUND_OF_PAIRS = 0.75
"""Of 8 x 8 sums of such a thread: Mesa's compiler finds a second one for nine of ten."""
AMD_MATRIX_RATES = {(32, 64): 0.60, (32, 32): 0.55, (16, 32): 0.45}
"""The part of the peak rate of matrix units that is expected of AMD's, by a warp's rows and columns."""
CDNA4_MATRIX_RATES = {(48, 64): 0.56, (32, 64): 0.43, (32, 32): 0.32}
"""The same of CDNA 4, by bounds: a SIMD does 512 multiply-adds in a cycle, for each of which shared memory
moves as little as for 256 of CDNA 3's."""
MFMA_GEMM_RATES = {(8, 8): REACHED, (8, 4): 0.6, (4, 4): 0.5}
"""The same of f32, by the rows and columns of a thread. Matrix units alone bound all of these loops; those
with fewer sums read their operands from caches more often."""
AMD_FUSED_PART = {AmdFamily.RDNA2: 1.0}
"""Of the rates of fused kernels on an H200; 0.75 on others, where shared memory bounds them."""


SPLIT_RATES = {(32, 32): 0.36, (16, 32): 0.29, (16, 16): 0.22}
"""The part of the peak rate of matrix units that they reach by warps, all products counted, by a warp's."""


COOPERATIVE_RATES = {(64, 64, None): 0.305, (64, 64, 128): 0.265, (48, 64, 64): 0.225, (32, 32, 64): 0.165}
"""The same through Vulkan, by a warp's rows and columns and by the large products in a sum.

Rounded numbers, which weren't measured, are taken to have the highest of the same warps."""


WARPGROUP_RATES = {
    (64, 3): 0.66,
    (112, 3): 0.84,
    (128, 3): 0.88,
    (64, 1): 0.72,
    (128, 1): 0.70,
    (256, 1): 0.56,
}
"""The same by warpgroups, by the columns of a block and the products of a pair of numbers.

Three products by 112 columns have that of what shared memory admits: those by 64 and 128 have 0.96 or more
of it. It moves 128 bytes in a cycle, each product of 64 rows reads both operands, and stages are copied
there. With them an H200 took 0.90 to 0.97 of what is predicted for products of tiles. Those of direct
convolutions take longer, of any columns, by what finishing their results takes, in which a lone workgroup
multiplies nothing: for each block of 128 x 128 0.4 us with a bias, 2.3 with a residual and 3 with GELU. So
it was 66 us for 32 x 19 x 19 x 728, where 56 are predicted. What follows isn't known yet when products are
chosen.
"""


GRADIENT_RATES = {(32, 32): 0.18, (16, 16): 0.11}
"""The same by warps, of products of TF32 for gradients of filters, by a warp's rows and columns."""


HALF_GRADIENT_RATES = {(64, 32): 0.35, (32, 32): 0.25}
"""The same of gathered numbers of half precision. That is expected: nobody measured it."""


def multiply_add_rates(machine: GpuMachine) -> Mapping[tuple[int, int], float]:
    """The part of the peak rate that full multiprocessors reach, by the rows and columns of a thread."""
    family = amd_family(machine.name)
    if family is None:
        return PRODUCT_RATES
    bounds = _BOUNDS_OF_RDNA2 if family is AmdFamily.RDNA2 else _BOUNDS_BY_SHARED_MEMORY
    reached = {block: REACHED * bound for block, bound in bounds.items()}
    if family.is_cdna:
        # LLVM moves 16 x 8 sums to the other half of the registers and back: a bound of 0.60, and one wave.
        del reached[16, 8]
    return reached


def fused_rates(machine: GpuMachine) -> Mapping[FusedSchedule, FusedRate]:
    """What the schedules of the fused kernel reach that are worth it."""
    family = amd_family(machine.name)
    if family is None:
        return FUSED_RATES
    if family.is_cdna:
        # Shared memory for one wave a SIMD, and a bound of 0.36 to 0.67 where matrix units have 1.
        return {}
    part = AMD_FUSED_PART.get(family, 0.75)
    return {
        schedule: replace(rate, peak_fraction=part * rate.peak_fraction)
        for schedule, rate in FUSED_RATES.items()
    }


def split_products_are_faster(unit: MatrixUnit, machine: GpuMachine) -> bool:
    """Whether products of split numbers take so much less time on matrix units that all layers can have them.

    Where they are about as fast as others, to be as accurate would cost time: `FASTER` is what other stages
    take back.
    """
    if machine.matrix_flops is None:
        return False
    if (family := amd_family(machine.name)) is not None:
        reached = max(_amd_matrix_rates(family).values())
    else:
        reached = max(COOPERATIVE_RATES.values() if unit == COOPERATIVE else SPLIT_RATES.values())
    split = reached * machine.matrix_flops / SPLIT_PRODUCTS
    return split > FASTER * max(multiply_add_rates(machine).values()) * machine.flops


def product_rate(
    schedule: GemmSchedule | ProductSchedule | GpuWeightGradientSchedule, machine: GpuMachine
) -> float:
    """Operations per second that a product by `schedule` reaches on full multiprocessors.

    Raises ValueError for one on matrix units where their rate isn't known, and KeyError for one that reads
    all of its operands once.
    """
    return _PRODUCT_RATES[type(schedule)](schedule, machine)


def _multiply_add_rate(schedule: GemmSchedule, machine: GpuMachine) -> float:
    rate = multiply_add_rates(machine)[schedule.thread_rows, schedule.thread_columns]
    if _pairs_multiply_adds(schedule, machine):
        rate = min(rate, REACHED * _BOUND_OF_PAIRS)
    return rate * _kept_with_few_waves(schedule, machine) * machine.flops


def _pairs_multiply_adds(schedule: GemmSchedule, machine: GpuMachine) -> bool:
    """Whether warps of 32 threads reach the peak rate by pairs alone that Mesa's compiler has to find."""
    is_pairing = amd_family(machine.name) in (AmdFamily.RDNA3, AmdFamily.RDNA4)
    return is_pairing and schedule.threads == DUAL_ISSUING_THREADS and schedule.ordered_steps is None


def _mfma_gemm_rate(schedule: MfmaGemmSchedule, machine: GpuMachine) -> float:
    """Matrix units multiply f32 as fast as others do packed multiply-adds, on MI100 twice as fast."""
    rate = MFMA_GEMM_RATES[schedule.thread_rows, schedule.thread_columns]
    return rate * _kept_with_few_waves(schedule, machine) * machine.flops


def has_two_waves(schedule: GemmSchedule, machine: GpuMachine) -> bool:
    """Whether a SIMD has shared memory for two waves: CDNA's may have for one each."""
    family = amd_family(machine.name)
    if family is None or not family.is_cdna:
        return True
    workgroups = family.shared_memory_bytes // schedule.shared_memory_bytes(F32)
    return workgroups * ceil_div(schedule.threads, MFMA.threads) // family.simds >= 2


def _kept_with_few_waves(schedule: GemmSchedule, machine: GpuMachine) -> float:
    """The part of its speed that a product keeps."""
    return 1.0 if has_two_waves(schedule, machine) else FEW_WAVES


def _amd_matrix_rates(family: AmdFamily) -> Mapping[tuple[int, int], float]:
    return CDNA4_MATRIX_RATES if family is AmdFamily.CDNA4 else AMD_MATRIX_RATES


def _warp_fraction(schedule: WarpSchedule, machine: GpuMachine) -> float:
    family = amd_family(machine.name)
    rates = SPLIT_RATES if family is None else _amd_matrix_rates(family)
    return rates[schedule.warp_rows, schedule.warp_columns]


def _cooperative_fraction(schedule: CooperativeSchedule, machine: GpuMachine) -> float:
    rows, columns = schedule.warp_rows, schedule.warp_columns
    if amd_family(machine.name) is not None:
        return AMD_MATRIX_RATES[rows, columns]
    if schedule.parts == 2:
        return COOPERATIVE_RATES[rows, columns, schedule.summed_block]
    return max(rate for sizes, rate in COOPERATIVE_RATES.items() if sizes[:2] == (rows, columns))


def _warpgroup_fraction(schedule: WarpgroupSchedule, machine: GpuMachine) -> float:
    products = schedule.matrix_products
    timed = [columns for columns, others in WARPGROUP_RATES if others == products]
    # Others are offered for images that they read, which have rates of their own.
    nearest = min(timed, key=lambda columns: abs(columns - schedule.block_columns))
    return WARPGROUP_RATES[nearest, products]


def _gradient_fraction(schedule: MatrixWeightGradientSchedule, machine: GpuMachine) -> float:
    return GRADIENT_RATES[schedule.warp_rows, schedule.warp_columns]


def _half_gradient_fraction(schedule: HalfWeightGradientSchedule, machine: GpuMachine) -> float:
    return HALF_GRADIENT_RATES[schedule.warp_rows, schedule.warp_columns]


_Rate = Callable[[Any, GpuMachine], float]


def _on_matrix_units(fraction: _Rate) -> _Rate:
    """The rate where `fraction` says which part of the peak rate of matrix units products reach."""

    def rate(schedule: ProductSchedule, machine: GpuMachine) -> float:
        if machine.matrix_flops is None:
            raise ValueError(f"the rate of the matrix units of {machine.name} isn't known")
        return fraction(schedule, machine) * machine.matrix_flops / schedule.matrix_products

    return rate


_PRODUCT_RATES: Mapping[type[Schedule], _Rate] = MappingProxyType(
    {
        GemmSchedule: _multiply_add_rate,
        MfmaGemmSchedule: _mfma_gemm_rate,
        SplitSchedule: _on_matrix_units(_warp_fraction),
        MfmaSchedule: _on_matrix_units(_warp_fraction),
        WmmaSchedule: _on_matrix_units(_warp_fraction),
        WmmaRdna4Schedule: _on_matrix_units(_warp_fraction),
        CooperativeSchedule: _on_matrix_units(_cooperative_fraction),
        WarpgroupSchedule: _on_matrix_units(_warpgroup_fraction),
        MultiplyAddWeightGradientSchedule: lambda schedule, machine: _multiply_add_rate(
            schedule.product, machine
        ),
        MatrixWeightGradientSchedule: _on_matrix_units(_gradient_fraction),
        HalfWeightGradientSchedule: _on_matrix_units(_half_gradient_fraction),
    }
)
"""What products reach by each class of schedules."""


@dataclass(frozen=True)
class FusedRate:
    """What a schedule of the fused kernel reaches on an H200."""

    peak_fraction: float
    """Of the peak rate, in the main loop."""
    edge_seconds: float
    """What a workgroup takes beside: until the first block is loaded, and after the last."""


FUSED_RATES = {
    FusedSchedule(16, 32, 64, 8, thread_products=2, buffers=2): FusedRate(0.61, 2.3e-6),
    FusedSchedule(24, 32, 32, 8, thread_products=1): FusedRate(0.44, 2.4e-6),
    # For small products: more workgroups.
    FusedSchedule(16, 16, 16, 8, 1, thread_tiles=4, thread_columns=4, buffers=2): FusedRate(0.26, 1.2e-6),
    # For at most 48 KiB of shared memory, as Vulkan has it, and measured there.
    FusedSchedule(16, 32, 32, 8, thread_products=1): FusedRate(0.44, 3.2e-6),
}
"""The schedules of the fused kernel that are worth it."""
