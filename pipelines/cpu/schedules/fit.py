"""What a schedule has to keep so that kernels stay within arrays and the memory of a workgroup."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from iree.winograd.passes.match.convolutions.element_types import F32
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.passes.match.no_match import Reason
from iree.winograd.pipelines.cpu.processor.matrix_unit import TILE_REGISTERS, TILE_ROWS
from iree.winograd.pipelines.cpu.processor.product import RegisterBlock
from iree.winograd.pipelines.cpu.processor.strips import strip_elements
from iree.winograd.pipelines.cpu.processor.target import ROW_PADDING, CpuTarget
from iree.winograd.pipelines.emission.numbers.known import NUMBERS
from iree.winograd.pipelines.problems.shape import ConvolutionShape, WeightGradientShape

from .bf16_vectors import Bf16VectorSchedule
from .channel_blocks import ChannelBlocks
from .depthwise import DepthwiseSchedule, can_copy, can_fetch, depthwise_workgroup_bytes, shares_pixels
from .depthwise_weight_gradient import DepthwiseWeightGradientSchedule
from .direct import (
    DirectSchedule,
    direct_workgroup_bytes,
    in_lines,
    interleaves_channels,
    patch_elements,
    patch_pixels,
    patch_schedule,
)
from .matrix_unit import Bf16MatrixUnitSchedule, F16MatrixUnitSchedule, MatrixUnitSchedule
from .tiled import TileSchedule, may_join_rows
from .weight_gradient import WeightGradientSchedule
from .winograd import WinogradSchedule

CpuSchedule = (
    WinogradSchedule
    | DirectSchedule
    | MatrixUnitSchedule
    | Bf16MatrixUnitSchedule
    | F16MatrixUnitSchedule
    | Bf16VectorSchedule
    | DepthwiseSchedule
    | WeightGradientSchedule
    | DepthwiseWeightGradientSchedule
)


def winograd_misfit(schedule: WinogradSchedule, shape: ConvolutionShape, target: CpuTarget) -> Reason | None:
    """What keeps the kernel of tiles from computing `shape` by its schedule; None when nothing does."""
    return (
        _stored_types_misfit(shape, target)
        or schedule.product.misfit(target)
        or _layout_misfit(shape)
        or _channels_misfit(schedule.channel_block, shape.group_outputs)
        or _winograd_misfit(schedule, shape, target)
    )


def direct_misfit(schedule: DirectSchedule, shape: ConvolutionShape, target: CpuTarget) -> Reason | None:
    """The same of the direct kernel."""
    if shape.input_channels_first and not interleaves_channels(shape, schedule.pixel_block):
        return (
            "the direct kernel reads channels-last images only, but where it copies pixels of a few channels"
        )
    return (
        _stored_types_misfit(shape, target, schedule.filter_type or F32.filter)
        or schedule.product.misfit(target)
        or _output_layout_misfit(shape)
        or _lanes_left_out_misfit(schedule, shape)
        or _direct_misfit(schedule, shape, target)
    )


def matrix_unit_misfit(
    schedule: MatrixUnitSchedule, shape: ConvolutionShape, target: CpuTarget
) -> Reason | None:
    """The same of the direct kernel on a matrix unit."""
    return (
        types_misfit(shape) or _matrix_unit_misfit(schedule, target) or _tiles_misfit(schedule, shape, target)
    )


def half_matrix_unit_misfit(
    schedule: Bf16MatrixUnitSchedule | F16MatrixUnitSchedule, shape: ConvolutionShape, target: CpuTarget
) -> Reason | None:
    """The same of the one that multiplies half precision."""
    return (
        _packed_misfit(shape, target)
        or _matrix_unit_misfit(schedule, target)
        or _tiles_misfit(schedule, shape, target)
    )


def bf16_vectors_misfit(
    schedule: Bf16VectorSchedule, shape: ConvolutionShape, target: CpuTarget
) -> Reason | None:
    """The same of the one on vectors of pairs."""
    return (
        _packed_misfit(shape, target)
        or _vectors_misfit(schedule, target)
        or _tiles_misfit(schedule, shape, target)
    )


def depthwise_misfit(
    schedule: DepthwiseSchedule, shape: ConvolutionShape, target: CpuTarget
) -> Reason | None:
    """The same of the depthwise kernel."""
    if shape.output_channels_first:
        return "the depthwise kernel writes channels-last images only"
    if shape.input_channels_first and not shares_pixels(shape, target):
        return "the depthwise kernel reads channels-first images only where all lanes share an element"
    types = shape.element_types
    if reason := _stored_types_misfit(shape, target):
        return reason
    if schedule.copied_rows is None and types.input != F32.input and not _comes_from_far(shape, target):
        return (
            f"widening {types.input} for each row of taps takes longer than reading {F32} from the L2 cache"
        )
    return _channels_misfit(schedule.channel_block, shape.output_channels) or _depthwise_misfit(
        schedule, shape, target
    )


def _comes_from_far(shape: ConvolutionShape, target: CpuTarget) -> bool:
    """Whether images of half precision are read faster than they are widened: in f32 they would take half of
    the L2 cache, beside what the kernel before wrote."""
    return target.stores_half and 4 * (shape.batch or 1) * shape.image_bytes > target.l2_bytes


def weight_gradient_misfit(
    schedule: WeightGradientSchedule, shape: ConvolutionShape, target: CpuTarget
) -> Reason | None:
    """What keeps the kernel of weight gradients from computing that of `shape`; None when nothing does."""
    return types_misfit(shape) or _weight_gradient_misfit(schedule, shape, target)


def depthwise_weight_gradient_misfit(
    schedule: DepthwiseWeightGradientSchedule, shape: ConvolutionShape, target: CpuTarget
) -> Reason | None:
    """The same of the kernel of depthwise ones."""
    return types_misfit(shape) or _depthwise_weight_gradient_misfit(schedule, shape, target)


def types_misfit(problem: ConvolutionProblem) -> Reason | None:
    """Why no kernel reads, sums and writes numbers of these types; None where one does."""
    types = problem.element_types
    return None if types == F32 else f"its element types are {types}, not {F32}"


def _stored_types_misfit(
    shape: ConvolutionShape, target: CpuTarget, filter_type: str = F32.filter
) -> Reason | None:
    """Why a kernel that converts what it reads and writes doesn't do so with images of these types, and with
    filters that are stored as `filter_type`."""
    types = shape.element_types
    if types.widened != F32:
        return types_misfit(shape)
    stored = (types.input, filter_type, types.result)
    if not target.converts_half and any(NUMBERS[name].needs_instructions for name in stored):
        return f"the target has no instructions that convert {replace(types, filter=filter_type)}"
    return None


def _layout_misfit(shape: ConvolutionShape) -> Reason | None:
    """Why a kernel can't read or write tiles of channels-first images, if it would have to."""
    if shape.input_channels_first and shape.decomposition.spacing[-1] > 1:
        return "the elements of its tiles don't lie side by side"
    return _output_layout_misfit(shape)


def _output_layout_misfit(shape: ConvolutionShape) -> Reason | None:
    """The same of what it writes alone."""
    if shape.output_channels_first and shape.decomposition.phases[-1] > 1:
        return "the outputs of its tiles don't lie side by side"
    return None


def _packed_misfit(shape: ConvolutionShape, target: CpuTarget) -> Reason | None:
    """Why a kernel doesn't multiply pairs of bf16, whatever its schedule."""
    if shape.runtime_filter:
        return "filters of bf16 are packed beforehand"
    return _stored_types_misfit(shape, target)


def _tiles_misfit(schedule: TileSchedule, shape: ConvolutionShape, target: CpuTarget) -> Reason | None:
    """The same of a kernel on tiles, apart from the types of numbers and from what multiplies them."""
    if shape.input_channels_first or shape.output_channels_first:
        return "the kernel takes channels-last images only"
    if shape.groups > 1:
        return "the kernel takes no groups"
    return _lanes_left_out_misfit(schedule, shape) or _matrix_block_misfit(schedule, in_lines(shape), target)


def _channels_misfit(channel_block: int, channels: int) -> Reason | None:
    if channel_block <= channels:
        return None
    return f"blocks of {channel_block} channels exceed the {channels} that there are"


def _lanes_left_out_misfit(schedule: DirectSchedule | TileSchedule, shape: ConvolutionShape) -> Reason | None:
    """Why channels don't fill blocks, but for a part of the last vector, which the kernel leaves out."""
    if shape.groups == 1 and schedule.channel_block - schedule.vector_width < shape.output_channels:
        return None
    return _channels_misfit(schedule.channel_block, shape.group_outputs)


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
        if shape.decomposition.view_count > 1:
            return "filters of several views are transformed beforehand"
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
    if schedule.tile_slices is None and (shape.batch is None or shape.unknown_sizes):
        return "tiles that are transformed beforehand need sizes known at compile time"
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
    return _memory_misfit(scheduled_direct_bytes(schedule, shape, target), target)


def scheduled_direct_bytes(schedule: DirectSchedule, shape: ConvolutionShape, target: CpuTarget) -> int:
    """The memory of a workgroup of the direct kernel by a schedule."""
    shape = in_lines(shape)
    needed = direct_workgroup_bytes(shape, schedule.row_block, schedule.pixel_block, target)
    if shape.output_channels_first:
        # A row of outputs waits to be transposed.
        needed += shape.element_types.result_bytes * schedule.pixel_block * schedule.channel_block
    return needed


def told_direct_bytes(schedule: DirectSchedule, shape: ConvolutionShape, target: CpuTarget) -> int:
    """The same where it is told sizes: it may gather patches in place of rows, of which sums wait as well."""
    shape = in_lines(shape)
    gathering = patch_schedule(shape, schedule, target)
    elements = patch_pixels(shape, gathering) * patch_elements(shape)
    patches = shape.element_types.domain_bytes * prod(shape.kernel_size[:-1]) * elements
    return patches + 2 * scheduled_direct_bytes(schedule, shape, target)


def _matrix_unit_misfit(schedule: TileSchedule, target: CpuTarget) -> Reason | None:
    """Why the matrix unit doesn't compute register blocks."""
    if not target.has_matrix_unit:
        return "the target has no matrix unit"
    block = schedule.block
    if block.registers > TILE_REGISTERS:
        return f"{block.registers} tiles exceed the {TILE_REGISTERS} registers of a matrix unit"
    if block.tile_rows > TILE_ROWS:
        return f"tile_pixels {block.tile_rows} exceeds the {TILE_ROWS} rows of a tile"
    return None


def _vectors_misfit(schedule: Bf16VectorSchedule, target: CpuTarget) -> Reason | None:
    """Why vectors of pairs don't compute register blocks."""
    if not target.multiplies_bf16:
        return "the target has no instruction that multiplies pairs of bf16"
    if schedule.pixel_tiles > 1 or schedule.row_tiles > 1:
        return "a register block is one tile"
    most = RegisterBlock.most_rows(schedule.channel_tiles, target)
    if schedule.tile_pixels > most:
        return f"tile_pixels {schedule.tile_pixels} exceeds the {most} that registers hold"
    return None


def _matrix_block_misfit(schedule: TileSchedule, shape: ConvolutionShape, target: CpuTarget) -> Reason | None:
    """The same of the blocks of a convolution that is `in_lines`."""
    outer = max(0, shape.spatial_rank - 2)
    sizes = (*shape.output_size[:outer], *shape.kernel_size[:outer])
    are_open = any(dimension in shape.unknown_sizes for dimension in range(outer))
    if are_open or any(size > 1 for size in sizes) or any(shape.padding_low[:outer]):
        return "the kernel takes images of two dimensions"
    if schedule.joins_rows and (reason := _joined_rows_misfit(schedule, shape)):
        return reason
    pixels = min(schedule.block_pixels, schedule.pixel_block)
    for name, size, part, whole in (
        ("row_block", schedule.row_block, schedule.row_tiles, shape.output_rows),
        ("pixel_block", schedule.pixel_block, pixels, shape.output_size[-1]),
    ):
        if size > whole:
            return f"{name} {size} exceeds the {whole} outputs that there are"
        if part > size:
            return f"{name} {size} is less than the {part} of a register block"
    return _memory_misfit(schedule.workgroup_bytes(shape, target), target)


def _joined_rows_misfit(schedule: TileSchedule, shape: ConvolutionShape) -> Reason | None:
    """Why a register block doesn't hold all rows of a workgroup: a copy of them needs zeros between rows."""
    joins = isinstance(schedule, Bf16MatrixUnitSchedule | F16MatrixUnitSchedule)
    if not joins or not may_join_rows(shape) or schedule.row_tiles > 1:
        return (
            f"pixel_block {schedule.pixel_block} is less than the {schedule.block_pixels} of a register block"
        )
    needed = schedule.joined_pixels(shape)
    if needed > schedule.block_pixels:
        return f"a register block of {schedule.block_pixels} outputs is less than the {needed} of joined rows"
    return None


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
    if schedule.image_prefetch is not None and not can_fetch(shape, schedule):
        return "rows are fetched ahead of images that are read where they are, all channels at once"
    if schedule.copied_rows is None:
        return None
    if shape.unknown_sizes:
        return "the input is copied of images whose sizes are known at compile time"
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
    return f"a workgroup needs {needed} bytes, but has {target.workgroup_bytes} of its own"
