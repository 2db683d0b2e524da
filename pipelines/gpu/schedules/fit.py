"""Whether a schedule suits a convolution and a target."""

from __future__ import annotations

from iree.winograd.passes.match.element_types import F32, ElementTypes
from iree.winograd.passes.match.no_match import Reason
from iree.winograd.passes.match.problem import ConvolutionProblem
from iree.winograd.pipelines.gpu.device.matrix_unit import MMA
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.problems.shape import ConvolutionShape, WeightGradientShape

from .depthwise import GpuDepthwiseSchedule
from .fused import FusedSchedule
from .gemm import GemmSchedule
from .implicit_gemm import ImplicitGemmSchedule
from .matrix import MatrixSchedule
from .warpgroup import WarpgroupSchedule
from .weight_gradient import GpuWeightGradientSchedule, MatrixWeightGradientSchedule

GpuSchedule = GemmSchedule | MatrixSchedule | FusedSchedule | GpuDepthwiseSchedule | GpuWeightGradientSchedule


def fits(schedule: GpuSchedule, target: GpuTarget, types: ElementTypes = F32) -> bool:
    """Whether the schedule keeps the target's limits for operands of these types."""
    return (
        schedule.threads <= target.max_threads
        and schedule.shared_memory_bytes(types) <= target.shared_memory_bytes
    )


def is_depthwise(shape: ConvolutionShape) -> bool:
    """Whether this is a direct convolution of one input and one output channel per group."""
    return shape.transform_size == 1 and shape.groups == shape.input_channels == shape.output_channels


def types_misfit(problem: ConvolutionProblem) -> Reason | None:
    """Why no kernel reads, sums and writes numbers of these types; None where one does."""
    types = problem.element_types
    return None if types == F32 else f"its element types are {types}, not {F32}"


def kernel_misfit(shape: ConvolutionShape, target: GpuTarget, schedule: object) -> Reason | None:
    """Why the kernels don't compute a convolution by `schedule`, or None where they do."""
    if reason := types_misfit(shape):
        return reason
    if not isinstance(schedule, GpuSchedule) or not fits(schedule, target, shape.element_types):
        return f"{schedule} is no schedule for this convolution within the limits of {target}"
    is_weight_gradient = isinstance(shape, WeightGradientShape)
    if isinstance(schedule, GpuWeightGradientSchedule) != is_weight_gradient:
        kind = "the gradient of a filter" if is_weight_gradient else "a convolution"
        return f"{schedule} is no schedule for {kind}"
    if isinstance(schedule, GpuDepthwiseSchedule) != (is_depthwise(shape) and not is_weight_gradient):
        kind = "a depthwise convolution" if is_depthwise(shape) else "one that is not depthwise"
        return f"{schedule} is no schedule for {kind}"
    if reason := _layout_misfit(shape, schedule):
        return reason
    if isinstance(schedule, ImplicitGemmSchedule):
        needed = schedule.bytes_for(shape)
        if needed is None:
            return f"{schedule} is for direct convolutions of one group and few channels or whole sixteens"
        if needed > target.shared_memory_bytes:
            return f"{schedule} takes {needed} bytes of shared memory, the target has fewer"
    of_warpgroups = isinstance(schedule, WarpgroupSchedule | ImplicitGemmSchedule)
    if of_warpgroups and not target.has_warpgroup_products:
        return f"the target has no matrix units that warpgroups use for {schedule}"
    unit = MMA if isinstance(schedule, MatrixWeightGradientSchedule) else target.matrix_unit
    if isinstance(schedule, MatrixSchedule):
        unit = schedule.unit
    if unit != target.matrix_unit:
        return f"the target has no matrix units for {schedule}"
    if isinstance(schedule, FusedSchedule) and schedule.products != shape.transform_size:
        products = f"a schedule for {schedule.products} products"
        return f"{products} doesn't suit a convolution that has {shape.transform_size}"
    return None


def _layout_misfit(shape: ConvolutionShape, schedule: GpuSchedule) -> Reason | None:
    """Why the kernels don't read or write channels-first images, if they would have to."""
    if isinstance(schedule, ImplicitGemmSchedule):
        return None
    if isinstance(schedule, GpuWeightGradientSchedule):
        is_first = shape.input_channels_first or shape.output_channels_first
        return (
            "tiles are elements of channels-last images" if is_first and shape.transform_size == 1 else None
        )
    if not (shape.input_channels_first or shape.output_channels_first):
        return None
    if not isinstance(schedule, GemmSchedule | MatrixSchedule):
        return "the kernel takes channels-last images only"
    if shape.input_channels_first and (shape.transform_size == 1 or isinstance(schedule, MatrixSchedule)):
        return "neighbouring threads read neighbouring channels"
    return None
