"""What IREE's own code takes on a GPU.

Products of rows and a matrix take what was measured on an H200 (`benchmarks/gpu_matmul.py`), convolutions on
AMD's GPUs what bounds leave them. Nobody measured those.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import hypot, prod, sqrt
from types import MappingProxyType

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.passes.match.convolutions.problem import MatmulProblem
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.gpu.schedules.fit import is_depthwise
from iree.winograd.pipelines.gpu.schedules.gemm import GemmSchedule
from iree.winograd.pipelines.machines.amd import FEW_WAVES, AmdFamily, amd_family
from iree.winograd.pipelines.machines.model import GpuMachine
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .cost_model import PRODUCT_LATENCY, TAP_ROW_LATENCY, full_threads, launch_seconds
from .gemm_schedules import gemm_schedules
from .iree_blocks import block_by_rocm, block_by_vulkan
from .rates import REACHED, product_rate
from .representative import representative
from .stage_seconds import stage_seconds

BLOCKED_ROWS, BLOCK, RATE = 8, 256, 0.062
"""From so many rows on IREE multiplies by blocks of so many, at this part of the peak rate."""
STEP = 6e-8
"""Seconds that it takes at least, then, for each element that a sum has, one after the other."""

STEP_LATENCY = TAP_ROW_LATENCY
"""Seconds until a step has what it multiplies, where nothing is loaded ahead."""
BOUNDS_BY_VULKAN: Mapping[AmdFamily, tuple[float, float]] = MappingProxyType(
    {AmdFamily.RDNA2: (0.50, 0.94), AmdFamily.RDNA3: (0.25, 0.61), AmdFamily.RDNA4: (0.25, 0.61)}
)
"""The greatest of IREE's loops that `benchmarks.amd --stock` found, of layers of several taps and of one."""
LOADED, LOADED_BY_RDNA2 = 1 / 4, 1 / 2
"""Numbers that a compute unit loads from shared memory or the first cache for a multiply-add that it does:
128 bytes in a cycle, for 128 of these or for 64."""
BOUND_BY_ROCM = 0.125
"""Of layers of several taps on RDNA, whose threads have one sum and read all operands from the first cache.

On CDNA IREE multiplies on the same matrix units as we do, as fast."""


WHOLE_ROWS, WHOLE_COLUMNS, HALF_A_WAVE = 8, 64, 0.5
"""What IREE's blocks by Vulkan divide. For 7 x 7 and 35 x 35 pixels its workgroups have 4 to 16 threads, and
spill 21 to 23 registers, for 48, 80 and 116 channels 361 to 1443; for 14 x 14 pixels, strided 28 x 28, and
multiples of 32 channels they leave a SIMD of RDNA one wave (Mesa 26.2.6)."""


def iree_matmul_seconds(problem: MatmulProblem, machine: GpuMachine) -> Mapping[str, float]:
    """Seconds of the product of rows and a matrix.

    For a few rows it takes as long as reading the matrix once for each, for more as long as blocks of 256
    rows at a small part of the peak rate, however many of them there are, and no less than each step of a sum
    takes by itself.
    """
    elements = problem.input_channels * problem.output_channels
    if problem.rows < BLOCKED_ROWS:
        matrix = problem.element_types.filter_bytes * elements
        computed = problem.rows * matrix / machine.bandwidth(matrix)
    else:
        blocked = ceil_div(problem.rows, BLOCK) * BLOCK
        steps = STEP * problem.input_channels
        computed = max(steps, 2 * blocked * elements / (RATE * machine.flops))
    return {"products": PRODUCT_LATENCY + computed, "launch": launch_seconds(machine)}


def iree_convolution_seconds(
    shape: ConvolutionShape, target: GpuTarget, machine: GpuMachine
) -> Mapping[str, float]:
    """Seconds of a direct convolution by one kernel; nothing where there is no model of it.

    On RDNA products of pixels and channels have IREE's blocks. All else is taken for the fastest of our
    kernels that don't share a sum, in as many workgroups, on RDNA at the bound of IREE's. Both reach the part
    `REACHED` of bounds.
    """
    family = amd_family(machine.name)
    if family is None or is_depthwise(shape):
        return {}
    shape = representative(shape)
    size = shape.images * (shape.image_bytes + shape.result_bytes) + shape.filter_bytes
    moving = size / machine.memory_bandwidth
    is_by_rocm = target.orders_steps
    if not family.is_cdna and prod(shape.kernel_size) == 1:
        computed = _pointwise_seconds(shape, machine, family, is_by_rocm=is_by_rocm)
        # As our kernels that read the image.
        products = PRODUCT_LATENCY + hypot(computed, moving)
    else:
        several = None if family.is_cdna else BOUND_BY_ROCM if is_by_rocm else BOUNDS_BY_VULKAN[family][0]
        found = _seconds_of_ours(shape, target, machine, several)
        if found is None:
            return {}
        products = max(moving, PRODUCT_LATENCY + found)
    return {"products": products, "launch": launch_seconds(machine)}


def _seconds_of_ours(
    shape: ConvolutionShape, target: GpuTarget, machine: GpuMachine, bound: float | None
) -> float | None:
    """Those of the fastest of our kernels, at a bound where there is one, beside their latency."""

    def seconds(schedule: GemmSchedule) -> float:
        products = stage_seconds(shape, schedule, machine)["products"] - PRODUCT_LATENCY
        if bound is None:
            return products
        return products * product_rate(schedule, machine) / (REACHED * bound * machine.flops)

    whole = [each for each in gemm_schedules(shape, target, machine) if each.reduction_parts == 1]
    return min(map(seconds, whole), default=None)


def _pointwise_seconds(
    shape: ConvolutionShape, machine: GpuMachine, family: AmdFamily, *, is_by_rocm: bool
) -> float:
    """Those of the operations of a convolution of one tap on RDNA, or until each step has its operands."""
    pixels = shape.images * prod(shape.output_size)
    columns, terms = shape.group_outputs, shape.group_inputs
    # Blocks don't reach over the end of a row of pixels where not all are read.
    rows = pixels if all(stride == 1 for stride in shape.strides) else shape.output_size[-1]
    if is_by_rocm:
        block, kept = block_by_rocm(rows, columns, terms), 1.0
    else:
        loaded = LOADED_BY_RDNA2 if family is AmdFamily.RDNA2 else LOADED
        greatest = BOUNDS_BY_VULKAN[family][1]
        block = block_by_vulkan(rows, columns, terms, greatest=greatest, loaded=loaded)
        kept = _kept_by_vulkan(rows, columns)
    workgroups = pixels // rows * ceil_div(rows, block.rows) * ceil_div(columns, block.columns) * shape.groups
    most = ceil_div(workgroups, machine.multiprocessors)
    occupancy = sqrt(min(1.0, most * block.threads / full_threads(machine)))
    rate = kept * REACHED * block.bound * occupancy * machine.flops
    operations = 2 * block.rows * block.columns * terms * most * machine.multiprocessors
    steps = ceil_div(terms, block.awaited_terms) if block.awaited_terms else 0
    return max(operations / rate, steps * STEP_LATENCY)


def _kept_by_vulkan(rows: int, columns: int) -> float:
    """The part of the rate of a product that IREE's workgroups keep by the sizes that blocks divide."""
    if rows == 1:
        return 1.0
    if rows % 2 or columns % (WHOLE_COLUMNS // 2):
        return HALF_A_WAVE
    return FEW_WAVES if rows % WHOLE_ROWS or columns % WHOLE_COLUMNS else 1.0
