"""Whether a schedule suits a convolution and a target."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.passes.match.convolutions.element_types import F32, ElementTypes
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.passes.match.no_match import Reason
from iree.winograd.pipelines.gpu.device.matrix_unit import COPIED, MATRIX_ROWS, MFMA, MMA, MatrixUnit
from iree.winograd.pipelines.gpu.device.memory import OCTET, PAIR, QUAD
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.machines.amd import AmdFamily, amd_family
from iree.winograd.pipelines.problems.shape import ConvolutionShape, WeightGradientShape

from .columns import (
    BlockSchedule,
    DepthwiseBlockSchedule,
    DepthwiseStripSchedule,
    GpuDepthwiseSchedule,
    GroupedBlockSchedule,
    GroupedSchedule,
    ThreadOutputsSchedule,
)
from .fused import FusedSchedule
from .gemm import GemmSchedule, MfmaGemmSchedule
from .gemv import MAX_GEMV_F32_ROWS, MAX_GEMV_HALF_ROWS, MAX_GEMV_LAYER_ROWS, MAX_GEMV_ROWS, GemvSchedule
from .grouped_ring import GroupedRingSchedule, GroupedRingTiling
from .image_ring import ImageRingTiling
from .implicit_gemm import ImplicitGemmSchedule
from .matrix import MatrixSchedule
from .split import CooperativeSchedule, MfmaSchedule, SplitSchedule, WmmaRdna4Schedule, WmmaSchedule
from .streamed import StreamedSchedule
from .toeplitz import MAX_TAP_COLUMNS, MAX_TAP_ROWS, DepthwiseToeplitzSchedule, ToeplitzTiling
from .warpgroup import WarpgroupSchedule
from .weight_gradient import (
    GpuWeightGradientSchedule,
    HalfWeightGradientSchedule,
    MatrixWeightGradientSchedule,
    MultiplyAddWeightGradientSchedule,
)

MAX_GROUPED_TAPS = 5
"""Rows and columns of taps by groups of eight channels."""
GpuSchedule = (
    GemmSchedule
    | GemvSchedule
    | MatrixSchedule
    | FusedSchedule
    | ThreadOutputsSchedule
    | GpuWeightGradientSchedule
)


def fits(schedule: GpuSchedule, target: GpuTarget, types: ElementTypes = F32) -> bool:
    """Whether the schedule keeps the target's limits for operands of these types."""
    return (
        schedule.threads <= target.max_threads
        and schedule.shared_memory_bytes(types) <= target.shared_memory_bytes
    )


def is_depthwise(shape: ConvolutionShape) -> bool:
    """Whether this is a direct convolution of one input and one output channel per group."""
    return shape.transform_size == 1 and shape.groups == shape.input_channels == shape.output_channels


def has_groups_of_quads(shape: ConvolutionShape) -> bool:
    """Whether this is a direct convolution of groups whose input and output channels are whole quads."""
    is_direct = shape.transform_size == 1 and shape.groups > 1
    return is_direct and shape.group_inputs % QUAD == 0 and shape.group_outputs % QUAD == 0


def types_misfit(problem: ConvolutionProblem) -> Reason | None:
    """Why no kernel reads, sums and writes numbers of these types; None where one does."""
    types = problem.element_types
    return None if types == F32 else f"its element types are {types}, not {F32}"


def kernel_misfit(shape: ConvolutionShape, target: GpuTarget, schedule: object) -> Reason | None:
    """Why no kernel computes a convolution by `schedule`; None where one does: the only gate to them.

    They take images of half precision: loads widen, stores round.
    """
    types = shape.element_types
    widened = types.widened_of_gradient if isinstance(shape, WeightGradientShape) else types.widened
    if widened != F32 and (reason := types_misfit(shape)):
        return reason
    if not isinstance(schedule, GpuSchedule) or not fits(schedule, target, shape.element_types):
        return f"{schedule} is no schedule for this convolution within the limits of {target}"
    kind = SCHEDULE_KINDS[type(schedule)]
    if kind.computes != (computed := _computed(shape)):
        return f"{schedule} is no schedule for {computed}"
    return kind.misfit(schedule, shape, target)


def _computed(shape: ConvolutionShape) -> str:
    if isinstance(shape, WeightGradientShape):
        return _GRADIENT
    return _DEPTHWISE if is_depthwise(shape) else _CONVOLUTION


@dataclass(frozen=True)
class ScheduleKind:
    """What the kernels of a class of schedules compute."""

    computes: str
    misfit: Callable[[Any, ConvolutionShape, GpuTarget], Reason | None]
    """Why they don't compute a shape of this kind by a schedule; None where they do."""


def _gemm_misfit(schedule: GemmSchedule, shape: ConvolutionShape, target: GpuTarget) -> Reason | None:
    if schedule.ordered_steps is not None and not target.orders_steps:
        return "the target's compiler can't be told in which order steps are"
    is_gathered = shape.input_channels_first and shape.transform_size == 1
    return "neighbouring threads read neighbouring channels" if is_gathered else None


def _gemv_misfit(schedule: GemvSchedule, shape: ConvolutionShape, target: GpuTarget) -> Reason | None:
    if not schedule.suits(shape, schedule.multiplied_type):
        small = f"{MAX_GEMV_HALF_ROWS} of half precision by a small matrix, {MAX_GEMV_LAYER_ROWS} of f32"
        small = f"{small}, {MAX_GEMV_F32_ROWS} by a smaller one"
        most = f"{MAX_GEMV_ROWS} rows, in f32 of whole quads, {small}"
        return f"{schedule} is for pointwise layers of at most {most}"
    # Vulkan has no vectors of eight, and nobody measured others.
    return _unit_misfit(schedule, MMA, target)


def _mfma_gemm_misfit(
    schedule: MfmaGemmSchedule, shape: ConvolutionShape, target: GpuTarget
) -> Reason | None:
    return _gemm_misfit(schedule, shape, target) or _unit_misfit(schedule, MFMA, target)


def _matrix_misfit(schedule: MatrixSchedule, shape: ConvolutionShape, target: GpuTarget) -> Reason | None:
    if shape.input_channels_first:
        return "neighbouring threads read neighbouring channels"
    return _unit_misfit(schedule, schedule.unit, target)


def _mfma_misfit(schedule: MfmaSchedule, shape: ConvolutionShape, target: GpuTarget) -> Reason | None:
    if schedule.terms > MATRIX_ROWS and amd_family(target.architecture) is not AmdFamily.CDNA4:
        return f"the target's matrix units multiply no {schedule.terms} terms at once"
    return _matrix_misfit(schedule, shape, target)


def _warpgroup_misfit(
    schedule: WarpgroupSchedule, shape: ConvolutionShape, target: GpuTarget
) -> Reason | None:
    if schedule.divided_products is not None and schedule.divided_products >= shape.transform_size:
        return f"{schedule} divides the last products alone of more than {shape.transform_size}"
    if schedule.maps_image and not schedule.maps(shape):
        return f"{schedule} is for images whose pixels are rows, of whole chunks, and for wide results"
    if schedule.store_width is not None and not schedule.stores(shape):
        return f"{schedule} is for direct convolutions, of whole {schedule.store_width} outputs of a group"
    return _warpgroup_products_misfit(schedule, target) or _matrix_misfit(schedule, shape, target)


def _implicit_gemm_misfit(
    schedule: ImplicitGemmSchedule, shape: ConvolutionShape, target: GpuTarget
) -> Reason | None:
    needed = schedule.bytes_for(shape)
    if needed is None:
        return f"{schedule} is for direct convolutions of one group whose output channels are fours"
    if needed > target.shared_memory_bytes:
        return f"{schedule} takes {needed} bytes of shared memory, the target has fewer"
    return _warpgroup_products_misfit(schedule, target) or _unit_misfit(schedule, schedule.unit, target)


def _streamed_misfit(schedule: StreamedSchedule, shape: ConvolutionShape, target: GpuTarget) -> Reason | None:
    if shape.transform_size > 1 or not _has_channels_to_stream(shape):
        return f"{schedule} is for direct convolutions of groups of whole quads, or one of whole pairs"
    if shape.unknown_sizes and not shape.is_of_single_pixels:
        return f"{schedule} is for images of unknown sizes whose outputs are of a pixel each"
    if (needed := schedule.bytes_for(shape)) > target.shared_memory_bytes:
        return f"{schedule} takes {needed} bytes of shared memory, the target has fewer"
    if not schedule.has_all_blocks(shape):
        return f"{shape.reduction} positions are fewer blocks of channels than {schedule} has"
    if schedule.groups > 1 and shape.group_outputs > schedule.block_columns:
        return f"{schedule} has all output channels of a group in a block"
    if schedule.warpgroup_columns is not None:
        if (reason := _warpgroup_products_misfit(schedule, target)) or shape.groups > 1:
            return reason or f"{schedule} is for one group"
        pairs = 2 if schedule.has_octets_of_results(shape) else 1
        if schedule.warpgroup_columns % (pairs * MATRIX_ROWS):
            return f"{schedule} has parts of what threads store at once"
    return _matrix_misfit(schedule, shape, target)


def _has_channels_to_stream(shape: ConvolutionShape) -> bool:
    """Whether threads load and store whole quads, or pairs of them where sizes are known."""
    are_pairs = shape.groups == 1 and not shape.unknown_sizes
    width = PAIR if are_pairs else QUAD
    return shape.group_inputs % width == shape.group_outputs % width == 0


def _depthwise_misfit(
    schedule: GpuDepthwiseSchedule, shape: ConvolutionShape, target: GpuTarget
) -> Reason | None:
    if (needed := schedule.bytes_for(shape)) > target.shared_memory_bytes:
        return f"{schedule} takes {needed} bytes of shared memory, the target has fewer"
    return _channels_first_misfit(schedule, shape, target)


def _block_misfit(schedule: BlockSchedule, shape: ConvolutionShape, target: GpuTarget) -> Reason | None:
    if len(shape.kernel_size) != 2:
        return f"{schedule} is for images of two dimensions"
    if schedule.channels < QUAD and shape.output_channels % schedule.channels:
        return f"{schedule} doesn't divide {shape.output_channels} channels"
    if schedule.lanes is not None and shape.output_channels % (schedule.lanes * schedule.channels):
        return f"{schedule} doesn't divide {shape.output_channels} channels"
    size = shape.output_size[1]
    if schedule.beside > 1 and (shape.unknown_sizes or ceil_div(size, schedule.columns) % schedule.beside):
        return f"{schedule} doesn't divide columns"
    return _channels_first_misfit(schedule, shape, target)


def is_walkable(shape: ConvolutionShape) -> bool:
    """Whether it is a depthwise convolution of two dimensions, each row of which is multiplied by all rows of
    taps, of a known size."""
    decomposition = shape.decomposition
    ones = (1, 1)
    return (
        is_depthwise(shape)
        and decomposition.step == decomposition.dilation == ones
        and not shape.unknown_sizes
        and max(shape.padding_low[0], shape.padding_high[0]) < shape.kernel_size[0]
    )


def _depthwise_strip_misfit(
    schedule: DepthwiseStripSchedule, shape: ConvolutionShape, target: GpuTarget
) -> Reason | None:
    if not is_walkable(shape):
        return f"{schedule} is for images of two dimensions and known sizes, without strides"
    if shape.output_channels % (schedule.lanes * schedule.channels):
        return f"{schedule} doesn't divide {shape.output_channels} channels"
    return _channels_first_misfit(schedule, shape, target)


def has_toeplitz_products(shape: ConvolutionShape) -> bool:
    """Whether it is a depthwise convolution of two dimensions, of known sizes, whose rows of taps are
    multiplied as Toeplitz matrices on matrix units."""
    decomposition = shape.decomposition
    if not is_depthwise(shape) or len(shape.kernel_size) != 2 or not shape.is_of_known_sizes:
        return False
    rows, columns = shape.kernel_size
    is_small = rows <= MAX_TAP_ROWS and columns <= MAX_TAP_COLUMNS
    return decomposition.step == decomposition.dilation == (1, 1) and is_small


def _depthwise_toeplitz_misfit(
    schedule: DepthwiseToeplitzSchedule, shape: ConvolutionShape, target: GpuTarget
) -> Reason | None:
    if not has_toeplitz_products(shape):
        most = f"{MAX_TAP_ROWS} x {MAX_TAP_COLUMNS}"
        return f"{schedule} is for images of two dimensions and known sizes, without strides, and {most} taps"
    tiling = ToeplitzTiling(shape, schedule)
    if tiling.tiles != schedule.unit_warps:
        return f"{schedule} has other warps than a strip of {shape} has tiles"
    return _ring_misfit(tiling, target)


def has_groups_of_octets(shape: ConvolutionShape) -> bool:
    """Whether it is a convolution of two dimensions, of known sizes, of groups of eight channels, whose taps
    are few enough to lie in registers."""
    decomposition = shape.decomposition
    if shape.transform_size > 1 or len(shape.kernel_size) != 2 or shape.groups == 1:
        return False
    step, other = decomposition.step
    is_small = max(shape.kernel_size) <= MAX_GROUPED_TAPS and step == other <= 2
    is_dense = decomposition.dilation == (1, 1)
    has_octets = shape.group_inputs == shape.group_outputs == OCTET
    return is_small and is_dense and has_octets and shape.is_of_known_sizes


def _grouped_ring_misfit(
    schedule: GroupedRingSchedule, shape: ConvolutionShape, target: GpuTarget
) -> Reason | None:
    if not has_groups_of_octets(shape):
        return f"{schedule} is for groups of {OCTET} channels, known sizes and strides of 1 or 2"
    return _ring_misfit(GroupedRingTiling(shape, schedule), target)


def _ring_misfit(tiling: ImageRingTiling, target: GpuTarget) -> Reason | None:
    """What both kernels that take pixels from a ring of rows have in common."""
    shape, schedule = tiling.shape, tiling.schedule
    if shape.output_channels % schedule.channels or shape.images % schedule.images:
        return f"{schedule} doesn't divide {shape.images} images or {shape.output_channels} channels"
    # Results that are to be of half precision may turn out to be stored as they are.
    if (needed := tiling.bytes(shape.element_types.result_bytes)) > target.shared_memory_bytes:
        return f"{schedule} takes {needed} bytes of shared memory, the target has fewer"
    return _channels_first_misfit(schedule, shape, target) or _unit_misfit(schedule, MMA, target)


def _grouped_block_misfit(
    schedule: GroupedBlockSchedule, shape: ConvolutionShape, target: GpuTarget
) -> Reason | None:
    if not has_groups_of_quads(shape):
        return f"{schedule} is for direct convolutions of groups of whole quads"
    return _block_misfit(schedule, shape, target)


def _grouped_misfit(schedule: GroupedSchedule, shape: ConvolutionShape, target: GpuTarget) -> Reason | None:
    if not has_groups_of_quads(shape):
        return f"{schedule} is for direct convolutions of groups of whole quads"
    return _channels_first_misfit(schedule, shape, target)


def _fused_misfit(schedule: FusedSchedule, shape: ConvolutionShape, target: GpuTarget) -> Reason | None:
    if schedule.products != shape.transform_size:
        products = f"a schedule for {schedule.products} products"
        return f"{products} doesn't suit a convolution that has {shape.transform_size}"
    return _channels_first_misfit(schedule, shape, target)


def _channels_first_misfit(
    schedule: GpuSchedule, shape: ConvolutionShape, target: GpuTarget
) -> Reason | None:
    is_first = shape.input_channels_first or shape.output_channels_first
    return "the kernel takes channels-last images only" if is_first else None


def _gradient_misfit(
    schedule: GpuWeightGradientSchedule, shape: ConvolutionShape, target: GpuTarget
) -> Reason | None:
    types = shape.element_types
    # What is multiplied where it is isn't widened on the way.
    if shape.transform_size == 1 and types != replace(types, input=F32.input, filter=F32.filter):
        return f"its operands, of {types.input} and {types.filter}, may be multiplied as they are"
    is_first = shape.input_channels_first or shape.output_channels_first
    return "tiles are elements of channels-last images" if is_first and shape.transform_size == 1 else None


def _matrix_gradient_misfit(
    schedule: MatrixWeightGradientSchedule, shape: ConvolutionShape, target: GpuTarget
) -> Reason | None:
    return _gradient_misfit(schedule, shape, target) or _unit_misfit(schedule, MMA, target)


def _half_gradient_misfit(
    schedule: HalfWeightGradientSchedule, shape: ConvolutionShape, target: GpuTarget
) -> Reason | None:
    types = shape.element_types
    # Before anything is stored so it is known of the numbers alone.
    operands = (shape.exact_type,) * 2 if types == F32 else (types.input, types.filter)
    if set(operands) != {schedule.multiplied_type}:
        return f"{schedule} multiplies {schedule.multiplied_type} by itself"
    if shape.transform_size > 1 or shape.groups > 1:
        return f"{schedule} is for direct convolutions of one group"
    if shape.input_channels_first or shape.output_channels_first:
        return "neighbouring threads read neighbouring channels"
    if shape.input_channels % COPIED or shape.output_channels % COPIED:
        return f"threads copy {COPIED} channels at once"
    return _unit_misfit(schedule, MMA, target)


def _warpgroup_products_misfit(schedule: MatrixSchedule, target: GpuTarget) -> Reason | None:
    if target.has_warpgroup_products:
        return None
    return f"the target has no matrix units that warpgroups use for {schedule}"


def _unit_misfit(schedule: GpuSchedule, unit: MatrixUnit, target: GpuTarget) -> Reason | None:
    return None if unit == target.matrix_unit else f"the target has no matrix units for {schedule}"


_CONVOLUTION, _DEPTHWISE = "a convolution that is not depthwise", "a depthwise convolution"
_GRADIENT = "the gradient of a filter"
SCHEDULE_KINDS: Mapping[type[GpuSchedule], ScheduleKind] = MappingProxyType(
    {
        GemmSchedule: ScheduleKind(_CONVOLUTION, _gemm_misfit),
        GemvSchedule: ScheduleKind(_CONVOLUTION, _gemv_misfit),
        MfmaGemmSchedule: ScheduleKind(_CONVOLUTION, _mfma_gemm_misfit),
        SplitSchedule: ScheduleKind(_CONVOLUTION, _matrix_misfit),
        CooperativeSchedule: ScheduleKind(_CONVOLUTION, _matrix_misfit),
        MfmaSchedule: ScheduleKind(_CONVOLUTION, _mfma_misfit),
        WmmaSchedule: ScheduleKind(_CONVOLUTION, _matrix_misfit),
        WmmaRdna4Schedule: ScheduleKind(_CONVOLUTION, _matrix_misfit),
        WarpgroupSchedule: ScheduleKind(_CONVOLUTION, _warpgroup_misfit),
        ImplicitGemmSchedule: ScheduleKind(_CONVOLUTION, _implicit_gemm_misfit),
        StreamedSchedule: ScheduleKind(_CONVOLUTION, _streamed_misfit),
        FusedSchedule: ScheduleKind(_CONVOLUTION, _fused_misfit),
        GpuDepthwiseSchedule: ScheduleKind(_DEPTHWISE, _depthwise_misfit),
        DepthwiseBlockSchedule: ScheduleKind(_DEPTHWISE, _block_misfit),
        DepthwiseStripSchedule: ScheduleKind(_DEPTHWISE, _depthwise_strip_misfit),
        DepthwiseToeplitzSchedule: ScheduleKind(_DEPTHWISE, _depthwise_toeplitz_misfit),
        GroupedRingSchedule: ScheduleKind(_CONVOLUTION, _grouped_ring_misfit),
        GroupedBlockSchedule: ScheduleKind(_CONVOLUTION, _grouped_block_misfit),
        GroupedSchedule: ScheduleKind(_CONVOLUTION, _grouped_misfit),
        MultiplyAddWeightGradientSchedule: ScheduleKind(_GRADIENT, _gradient_misfit),
        MatrixWeightGradientSchedule: ScheduleKind(_GRADIENT, _matrix_gradient_misfit),
        HalfWeightGradientSchedule: ScheduleKind(_GRADIENT, _half_gradient_misfit),
    }
)
"""All classes of schedules that there are kernels for. `lowering.py` has the kernels of each by its class,
`choice/stage_seconds.py` what they are predicted to take."""
