"""What a schedule has to keep so that kernels stay within arrays and the memory of a workgroup."""

from __future__ import annotations

from dataclasses import replace

from iree.winograd.passes.match.element_types import F32
from iree.winograd.passes.match.no_match import Reason
from iree.winograd.passes.match.problem import ConvolutionProblem
from iree.winograd.pipelines.cpu.processor.matrix_unit import TILE_REGISTERS, TILE_ROWS
from iree.winograd.pipelines.cpu.processor.strips import strip_elements
from iree.winograd.pipelines.cpu.processor.target import ROW_PADDING, CpuTarget
from iree.winograd.pipelines.emission.numbers.known import NUMBERS
from iree.winograd.pipelines.problems.shape import ConvolutionShape, WeightGradientShape

from .channel_blocks import ChannelBlocks
from .depthwise import DepthwiseSchedule, can_copy, depthwise_workgroup_bytes
from .depthwise_weight_gradient import DepthwiseWeightGradientSchedule
from .direct import DirectSchedule, direct_workgroup_bytes, in_lines
from .matrix_unit import (
    Bf16MatrixUnitSchedule,
    MatrixUnitSchedule,
    TileSchedule,
    matrix_unit_workgroup_bytes,
)
from .weight_gradient import WeightGradientSchedule
from .winograd import WinogradSchedule

CpuSchedule = (
    WinogradSchedule
    | DirectSchedule
    | MatrixUnitSchedule
    | Bf16MatrixUnitSchedule
    | DepthwiseSchedule
    | WeightGradientSchedule
    | DepthwiseWeightGradientSchedule
)

_CONVERTING = (DirectSchedule, WinogradSchedule, Bf16MatrixUnitSchedule, DepthwiseSchedule)
"""Those of kernels that read and write images of other types than they compute with."""


def misfit(schedule: CpuSchedule, shape: ConvolutionShape, target: CpuTarget) -> Reason | None:
    """What keeps the kernel of a schedule from computing `shape` by it; None when nothing does."""
    if reason := _stored_types_misfit(schedule, shape, target):
        return reason
    if shape.unknown_sizes and not isinstance(schedule, WinogradSchedule | DirectSchedule):
        return "the kernel takes images whose sizes are known at compile time"
    if isinstance(schedule, WeightGradientSchedule):
        return _weight_gradient_misfit(schedule, shape, target)
    if isinstance(schedule, DepthwiseWeightGradientSchedule):
        return _depthwise_weight_gradient_misfit(schedule, shape, target)
    channels = shape.output_channels if isinstance(schedule, DepthwiseSchedule) else shape.group_outputs
    if isinstance(schedule, TileSchedule):
        if reason := _matrix_unit_misfit(schedule, shape, target):
            return reason
    elif not isinstance(schedule, DepthwiseSchedule):
        reason = schedule.product.misfit(target)
        if reason is not None:
            return reason
    if reason := _layout_misfit(schedule, shape):
        return reason
    if schedule.channel_block > channels and not _leaves_lanes_out(schedule, shape):
        return f"blocks of {schedule.channel_block} channels exceed the {channels} that there are"
    if isinstance(schedule, WinogradSchedule):
        return _winograd_misfit(schedule, shape, target)
    if isinstance(schedule, DirectSchedule):
        return _direct_misfit(schedule, shape, target)
    if isinstance(schedule, TileSchedule):
        return _matrix_block_misfit(schedule, in_lines(shape), target)
    return _depthwise_misfit(schedule, shape, target)


def types_misfit(problem: ConvolutionProblem) -> Reason | None:
    """Why no kernel reads, sums and writes numbers of these types; None where one does."""
    types = problem.element_types
    return None if types == F32 else f"its element types are {types}, not {F32}"


def _stored_types_misfit(schedule: CpuSchedule, shape: ConvolutionShape, target: CpuTarget) -> Reason | None:
    """Why the kernel of a schedule doesn't read and write images of the types that they have."""
    types = shape.element_types
    stored = {types.input, types.result} - {F32.input}
    computed = replace(types, input=F32.input, result=F32.result)
    if not stored or computed != F32 or not stored <= NUMBERS.keys():
        return types_misfit(shape)
    if isinstance(schedule, DepthwiseSchedule) and schedule.copied_rows is None and types.input != F32.input:
        return f"the kernel reads {F32}, not {types.input}, where it copies nothing"
    if not isinstance(schedule, _CONVERTING):
        return f"the kernel reads and writes {F32}, not {types}"
    if not target.converts_half and any(NUMBERS[name].needs_instructions for name in stored):
        return f"the target has no instructions that convert {types}"
    return None


def _layout_misfit(schedule: CpuSchedule, shape: ConvolutionShape) -> Reason | None:
    """Why the kernel can't read or write channels-first images, if it would have to."""
    if not (shape.input_channels_first or shape.output_channels_first):
        return None
    if isinstance(schedule, DepthwiseSchedule):
        return "the depthwise kernel takes channels-last images only"
    if isinstance(schedule, TileSchedule):
        return "the kernel on the matrix unit takes channels-last images only"
    if shape.input_channels_first and isinstance(schedule, DirectSchedule):
        return "the direct kernel reads channels-last images only"
    if shape.input_channels_first and shape.decomposition.spacing[-1] > 1:
        return "the elements of its tiles don't lie side by side"
    if shape.output_channels_first and shape.decomposition.phases[-1] > 1:
        return "the outputs of its tiles don't lie side by side"
    return None


def scheduled_shape(schedule: CpuSchedule, shape: ConvolutionShape, target: CpuTarget) -> ConvolutionShape:
    """`shape` as the kernel of a schedule gets it, channels last where it takes no images channels first.

    `winograd-fold-layout` decides alike, on the input first.
    """
    scheduled = shape.channels_last
    if shape.input_channels_first:
        folded = shape.with_layouts(input_channels_first=True, output_channels_first=False)
        scheduled = scheduled if misfit(schedule, folded, target) else folded
    if shape.output_channels_first:
        folded = shape.with_layouts(
            input_channels_first=scheduled.input_channels_first, output_channels_first=True
        )
        scheduled = scheduled if misfit(schedule, folded, target) else folded
    return scheduled


def _leaves_lanes_out(schedule: CpuSchedule, shape: ConvolutionShape) -> bool:
    """Whether the kernel leaves a part of its last vector of channels out."""
    if (
        not isinstance(schedule, DirectSchedule | TileSchedule)
        or shape.groups > 1
        or shape.output_channels_first
    ):
        return False
    return schedule.channel_block - schedule.vector_width < shape.output_channels


def workgroup_bytes(schedule: WinogradSchedule, shape: ConvolutionShape, target: CpuTarget) -> int:
    """The memory of a workgroup: transformed tiles and filters, products, and tiles between passes."""
    inputs = 0
    if schedule.input_block is None:
        inputs = schedule.tile_block * (shape.groups * shape.reduction + ROW_PADDING)
    panel = 0 if schedule.filter_block is None else (schedule.filter_block + 1) * schedule.channel_block
    sums = schedule.tile_block * schedule.channel_block
    types = shape.element_types
    tiles = types.domain_bytes * (inputs + panel) + types.accumulator_bytes * sums
    waiting = types.accumulator_bytes * waiting_vectors(shape) * target.vector_width
    return shape.transform_size * tiles + waiting


def waiting_vectors(shape: ConvolutionShape) -> int:
    """Vectors of channels that wait: a tile for the next pass of a transform, and strips of tiles."""
    return shape.transform_size + strip_elements(shape)


def _winograd_misfit(schedule: WinogradSchedule, shape: ConvolutionShape, target: CpuTarget) -> Reason | None:
    if schedule.tile_block % schedule.register_tiles:
        return f"register_tiles {schedule.register_tiles} must divide tile_block {schedule.tile_block}"
    if schedule.input_block is not None and (shape.batch is None or shape.unknown_sizes):
        return "a separate input transform needs sizes known at compile time"
    if schedule.filter_block is not None:
        if not shape.runtime_filter or shape.decomposition.view_count > 1:
            return "filters that are constant, or of several views, are transformed beforehand"
        if shape.group_inputs % schedule.filter_block:
            return f"filter_block {schedule.filter_block} must divide {shape.group_inputs} input channels"
    return _memory_misfit(workgroup_bytes(schedule, shape, target), target)


def _weight_gradient_misfit(
    schedule: WeightGradientSchedule, shape: ConvolutionShape, target: CpuTarget
) -> Reason | None:
    product = schedule.product
    if reason := product.misfit(target):
        return reason
    if reason := _gradient_layout_misfit(shape):
        return reason
    if shape.batch is None and schedule.tile_slices is None:
        return "tiles that are transformed beforehand need a batch known at compile time"
    for name, block, part, whole in (
        ("row_block", schedule.row_block, product.rows, shape.group_inputs),
        ("channel_block", schedule.channel_block, product.channels, shape.group_outputs),
    ):
        if block > whole:
            return f"{name} {block} exceeds the {whole} channels that there are"
        if block % part:
            return f"{name} {block} is no multiple of the {part} of a register block"
    return _memory_misfit(weight_gradient_workgroup_bytes(schedule, shape, target), target)


def _gradient_layout_misfit(shape: ConvolutionShape) -> Reason | None:
    """Why a kernel of weight gradients can't read images, or write filters, if it would have to."""
    if shape.input_channels_first or shape.output_channels_first:
        return "the kernel of weight gradients reads channels-last images only"
    if isinstance(shape, WeightGradientShape) and shape.permutes_filter:
        return "the kernel of weight gradients writes filters with their output channels last only"
    return None


def weight_gradient_workgroup_bytes(
    schedule: WeightGradientSchedule, shape: ConvolutionShape, target: CpuTarget
) -> int:
    """The memory of a workgroup: sums, and of slices the tiles of a block, and one between passes."""
    rows, channels = schedule.row_block, schedule.channel_block
    elements = rows * channels
    if schedule.tile_slices is not None:
        elements += schedule.tile_block * (rows + channels) + 2 * ROW_PADDING
        elements += (1 + shape.input_channels_first) * target.vector_width
    return shape.element_types.accumulator_bytes * shape.transform_size * elements


def _direct_misfit(schedule: DirectSchedule, shape: ConvolutionShape, target: CpuTarget) -> Reason | None:
    shape = in_lines(shape)
    if schedule.pixel_block > shape.output_size[-1]:
        return f"pixel_block {schedule.pixel_block} exceeds the {shape.output_size[-1]} outputs of a row"
    if schedule.register_pixels > schedule.pixel_block:
        return f"register_pixels {schedule.register_pixels} exceeds pixel_block {schedule.pixel_block}"
    needed = direct_workgroup_bytes(shape, schedule.row_block, schedule.pixel_block, target)
    if shape.output_channels_first:
        # A row of outputs waits to be transposed.
        needed += shape.element_types.result_bytes * schedule.pixel_block * schedule.channel_block
    return _memory_misfit(needed, target)


def _matrix_unit_misfit(schedule: TileSchedule, shape: ConvolutionShape, target: CpuTarget) -> Reason | None:
    """Why the matrix unit doesn't compute the convolution, or not by such register blocks."""
    if not target.has_matrix_unit:
        return "the target has no matrix unit"
    if shape.groups > 1:
        return "the kernel on the matrix unit takes no groups"
    if isinstance(schedule, Bf16MatrixUnitSchedule) and shape.runtime_filter:
        return "filters of bf16 are packed for the matrix unit beforehand"
    block = schedule.block
    if block.registers > TILE_REGISTERS:
        return f"{block.registers} tiles exceed the {TILE_REGISTERS} registers of a matrix unit"
    if block.tile_rows > TILE_ROWS:
        return f"tile_pixels {block.tile_rows} exceeds the {TILE_ROWS} rows of a tile"
    return None


def _matrix_block_misfit(schedule: TileSchedule, shape: ConvolutionShape, target: CpuTarget) -> Reason | None:
    """The same of the blocks of a convolution that is `in_lines`."""
    outer = max(0, shape.spatial_rank - 2)
    sizes = (*shape.output_size[:outer], *shape.kernel_size[:outer])
    if any(size > 1 for size in sizes) or any(shape.padding_low[:outer]):
        return "the kernel on the matrix unit takes images of two dimensions"
    for name, size, part, whole in (
        ("row_block", schedule.row_block, schedule.row_tiles, shape.output_rows),
        (
            "pixel_block",
            schedule.pixel_block,
            schedule.pixel_tiles * schedule.tile_pixels,
            shape.output_size[-1],
        ),
    ):
        if size > whole:
            return f"{name} {size} exceeds the {whole} outputs that there are"
        if part > size:
            return f"{name} {size} is less than the {part} of a register block"
    return _memory_misfit(matrix_unit_workgroup_bytes(schedule, shape, target), target)


def _depthwise_misfit(
    schedule: DepthwiseSchedule, shape: ConvolutionShape, target: CpuTarget
) -> Reason | None:
    if reason := _lanes_misfit(schedule.vector_width, shape, target):
        return reason
    if schedule.register_pixels > shape.output_size[-1]:
        return (
            f"register_pixels {schedule.register_pixels} exceeds the {shape.output_size[-1]} outputs of a row"
        )
    if schedule.row_block > shape.output_rows:
        return f"row_block {schedule.row_block} exceeds the {shape.output_rows} rows of outputs"
    if schedule.copied_rows is None:
        return None
    if not can_copy(shape):
        return "the input is copied of images of rows alone, whose channels are groups"
    if schedule.copied_rows > schedule.row_block:
        return f"copied_rows {schedule.copied_rows} exceeds row_block {schedule.row_block}"
    return _memory_misfit(depthwise_workgroup_bytes(shape, schedule), target)


def _depthwise_weight_gradient_misfit(
    schedule: DepthwiseWeightGradientSchedule, shape: ConvolutionShape, target: CpuTarget
) -> Reason | None:
    if reason := _gradient_layout_misfit(shape):
        return reason
    if reason := _lanes_misfit(schedule.vector_width, shape, target):
        return reason
    row = shape.output_size[-1]
    if schedule.pixel_block % row:
        return f"pixel_block {schedule.pixel_block} is no multiple of the {row} outputs of a row"
    tap_rows = shape.kernel_size[-2] if shape.spatial_rank > 1 else 1
    if tap_rows % schedule.register_tap_rows:
        return f"register_tap_rows {schedule.register_tap_rows} doesn't divide the {tap_rows} rows of taps"
    blocks = ChannelBlocks(shape.output_channels, 1, schedule.vector_width)
    vectors = blocks.part_size(min(schedule.channel_splits, blocks.count))
    needed = shape.element_types.accumulator_bytes * vectors * schedule.vector_width * shape.reduction
    return _memory_misfit(needed, target)


def _lanes_misfit(vector_width: int, shape: ConvolutionShape, target: CpuTarget) -> Reason | None:
    """Why vectors of channels can't span groups."""
    if vector_width > target.vector_width:
        return f"vectors of {vector_width} lanes exceed the target's of {target.vector_width}"
    if vector_width > shape.output_channels:
        return f"vectors of {vector_width} lanes exceed the {shape.output_channels} channels that there are"
    if vector_width % shape.group_outputs:
        return f"vectors of {vector_width} lanes don't hold whole groups of {shape.group_outputs}"
    return None


def _memory_misfit(needed: int, target: CpuTarget) -> Reason | None:
    if needed <= target.workgroup_bytes:
        return None
    return f"a workgroup needs {needed} bytes, but has {target.workgroup_bytes} of the L2 cache"
