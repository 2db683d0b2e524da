"""What IREE's own code takes on a GPU.

Products of rows and a matrix take what was measured on an H200 (`benchmarks/gpu_matmul.py`), convolutions on
AMD's GPUs what bounds leave them. Nobody measured those.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from types import MappingProxyType

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.passes.match.problem import MatmulProblem
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.gpu.schedules.fit import is_depthwise
from iree.winograd.pipelines.gpu.schedules.gemm import GemmSchedule
from iree.winograd.pipelines.machines.amd import FEW_WAVES, AmdFamily, amd_family
from iree.winograd.pipelines.machines.model import GpuMachine
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .cost_model import PRODUCT_LATENCY, launch_seconds
from .default_schedule import gemm_schedules
from .rates import REACHED, product_rate
from .representative import representative
from .stage_seconds import stage_seconds

BLOCKED_ROWS, BLOCK, RATE = 8, 256, 0.062
"""From so many rows on IREE multiplies by blocks of so many, at this part of the peak rate."""
STEP = 6e-8
"""Seconds that it takes at least, then, for each element that a sum has, one after the other."""

BOUNDS_OF_IREE: Mapping[AmdFamily, tuple[float, float]] = MappingProxyType(
    {AmdFamily.RDNA2: (0.50, 0.94), AmdFamily.RDNA3: (0.27, 0.61), AmdFamily.RDNA4: (0.50, 0.61)}
)
"""The greatest of IREE's loops that `benchmarks.amd --stock` found, of layers of several taps and of one.

Those that read all operands from caches, as by LLVM on RDNA 4, have bounds of up to 0.99, which these caches
aren't in. On CDNA IREE multiplies on the same matrix units as we do, as fast."""


WHOLE_ROWS, WHOLE_COLUMNS, HALF_A_WAVE = 8, 32, 0.5
"""What IREE's blocks by Vulkan divide. For 7 x 7 and 35 x 35 pixels its workgroups have 4 to 16 threads, and
spill 21 to 23 registers; for 14 x 14 and strided 28 x 28 they leave a SIMD of RDNA one wave; for 32 x 32 and
8 channels 341 registers and one wave (Mesa 26.2.6)."""


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

    That kernel is taken for the fastest of ours that don't share a sum, in as many workgroups, whose products
    reach the part `REACHED` of the bound of IREE's; it takes no less than its bytes do.
    """
    family = amd_family(machine.name)
    if family is None or is_depthwise(shape):
        return {}
    shape = representative(shape)
    bounds = BOUNDS_OF_IREE.get(family)
    size = shape.images * (shape.image_bytes + shape.result_bytes) + shape.filter_bytes
    moving = size / machine.memory_bandwidth
    is_by_vulkan = bounds is not None and not target.orders_steps
    kept = _kept_by_vulkan(shape) if is_by_vulkan and prod(shape.kernel_size) == 1 else 1.0

    def seconds(schedule: GemmSchedule) -> float:
        products = stage_seconds(shape, schedule, machine)["products"]
        slowed = 1.0
        if bounds is not None:
            reached = REACHED * bounds[prod(shape.kernel_size) == 1] * machine.flops
            slowed = product_rate(schedule, machine) / (reached * kept)
        return max(moving, PRODUCT_LATENCY + (products - PRODUCT_LATENCY) * slowed)

    whole = [each for each in gemm_schedules(shape, target, machine) if each.reduction_parts == 1]
    if not whole:
        return {}
    return {"products": min(map(seconds, whole)), "launch": launch_seconds(machine)}


def _kept_by_vulkan(shape: ConvolutionShape) -> float:
    """The part of the rate of a product of pixels and channels that IREE's workgroups keep by their sizes."""
    is_matrix = all(stride == 1 for stride in shape.strides)
    rows = shape.images * prod(shape.output_size) if is_matrix else shape.output_size[-1]
    if rows % 2:
        return HALF_A_WAVE
    return FEW_WAVES if rows % WHOLE_ROWS or shape.group_outputs < WHOLE_COLUMNS else 1.0
