"""From a group of winograd ops, or another operation, to dispatches of GPU kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.tensors import size_of
from iree.winograd.passes.match.layouts.channel_slice import match_insert
from iree.winograd.passes.match.navigation import RESHAPES, readers
from iree.winograd.passes.match.no_match import Reason
from iree.winograd.passes.match.pixels.selected_pixels import PixelTap
from iree.winograd.pipelines.emission.size_range import TileRange
from iree.winograd.pipelines.gpu.device.launch import Launcher
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.gpu.kernels.direct.direct_block import DirectBlockKernel
from iree.winograd.pipelines.gpu.kernels.grouped.depthwise import DepthwiseKernel
from iree.winograd.pipelines.gpu.kernels.grouped.depthwise_block import DepthwiseBlockKernel
from iree.winograd.pipelines.gpu.kernels.grouped.depthwise_strip import DepthwiseStripKernel
from iree.winograd.pipelines.gpu.kernels.grouped.depthwise_toeplitz import DepthwiseToeplitzKernel
from iree.winograd.pipelines.gpu.kernels.grouped.grouped import GroupedKernel
from iree.winograd.pipelines.gpu.kernels.grouped.grouped_block import GroupedBlockKernel
from iree.winograd.pipelines.gpu.kernels.grouped.grouped_ring import GroupedRingKernel
from iree.winograd.pipelines.gpu.kernels.matrix_products.gemm import MultiplyAddProduct
from iree.winograd.pipelines.gpu.kernels.matrix_products.gemv import GemvProduct
from iree.winograd.pipelines.gpu.kernels.matrix_products.split import SplitProduct
from iree.winograd.pipelines.gpu.kernels.matrix_products.warpgroup import WarpgroupProduct
from iree.winograd.pipelines.gpu.kernels.weight_gradients.half_tile_product import HalfTileProductKernel
from iree.winograd.pipelines.gpu.kernels.weight_gradients.matrix_tile_product import MatrixTileProductKernel
from iree.winograd.pipelines.gpu.kernels.weight_gradients.weight_gradient import MultiplyAddTileProductKernel
from iree.winograd.pipelines.gpu.lowerings.attention import lowered_attention
from iree.winograd.pipelines.gpu.lowerings.convolution import (
    ColumnsLowering,
    ConvolutionLowering,
    FusedLowering,
    ImplicitGemmLowering,
    ProductLowering,
    StreamedLowering,
)
from iree.winograd.pipelines.gpu.lowerings.elementwise import ElementwiseLowering, lowered_gates
from iree.winograd.pipelines.gpu.lowerings.gated import gated
from iree.winograd.pipelines.gpu.lowerings.group_norm import GroupNormLowering
from iree.winograd.pipelines.gpu.lowerings.image_arguments import transposed
from iree.winograd.pipelines.gpu.lowerings.in_place import insertion_of
from iree.winograd.pipelines.gpu.lowerings.interleaving import InterleavingLowering
from iree.winograd.pipelines.gpu.lowerings.pointwise_pair import lowered_pair
from iree.winograd.pipelines.gpu.lowerings.products import lowered_product
from iree.winograd.pipelines.gpu.lowerings.resampling import lowered_resampling
from iree.winograd.pipelines.gpu.lowerings.rows import lowered_columns, lowered_rows
from iree.winograd.pipelines.gpu.lowerings.selection import lowered_selection
from iree.winograd.pipelines.gpu.lowerings.sums import SumsLowering
from iree.winograd.pipelines.gpu.lowerings.weight_gradient import WeightGradientLowering
from iree.winograd.pipelines.gpu.lowerings.windows import lowered_windows
from iree.winograd.pipelines.gpu.packing.fused import FusedPacking
from iree.winograd.pipelines.gpu.packing.gemv import GemvPacking
from iree.winograd.pipelines.gpu.packing.implicit_gemm import ImplicitGemmPacking
from iree.winograd.pipelines.gpu.packing.products import MultiplyAddPacking
from iree.winograd.pipelines.gpu.packing.split import SplitPacking
from iree.winograd.pipelines.gpu.packing.split_rows import storing_split
from iree.winograd.pipelines.gpu.packing.streamed import StreamedPacking
from iree.winograd.pipelines.gpu.packing.weight_gradient import WeightGradientPacking
from iree.winograd.pipelines.gpu.schedules.columns import (
    BlockSchedule,
    DepthwiseBlockSchedule,
    DepthwiseStripSchedule,
    GpuDepthwiseSchedule,
    GroupedBlockSchedule,
    GroupedSchedule,
)
from iree.winograd.pipelines.gpu.schedules.fit import kernel_misfit
from iree.winograd.pipelines.gpu.schedules.fused import FusedSchedule
from iree.winograd.pipelines.gpu.schedules.gemm import GemmSchedule, MfmaGemmSchedule
from iree.winograd.pipelines.gpu.schedules.gemv import GemvSchedule
from iree.winograd.pipelines.gpu.schedules.grouped_ring import GroupedRingSchedule
from iree.winograd.pipelines.gpu.schedules.implicit_gemm import ImplicitGemmSchedule
from iree.winograd.pipelines.gpu.schedules.split import (
    CooperativeSchedule,
    MfmaSchedule,
    SplitSchedule,
    WarpSchedule,
    WmmaRdna4Schedule,
    WmmaSchedule,
)
from iree.winograd.pipelines.gpu.schedules.streamed import StreamedSchedule
from iree.winograd.pipelines.gpu.schedules.toeplitz import DepthwiseToeplitzSchedule
from iree.winograd.pipelines.gpu.schedules.warpgroup import WarpgroupSchedule
from iree.winograd.pipelines.gpu.schedules.weight_gradient import (
    HalfWeightGradientSchedule,
    MatrixWeightGradientSchedule,
    MultiplyAddWeightGradientSchedule,
)
from iree.winograd.pipelines.gpu.tensor_kernels import misfit
from iree.winograd.pipelines.problems.group import ConvolutionGroup
from iree.winograd.pipelines.problems.schedule import Schedule
from iree.winograd.pipelines.problems.schedule_range import ScheduleRange
from iree.winograd.pipelines.problems.tensor_operations import (
    BatchedAttention,
    BatchedProduct,
    ChannelsFirst,
    ChannelsLast,
    ColumnSoftmax,
    CombinedMoments,
    GatedProduct,
    GroupNormalization,
    InsertedPart,
    InterleavedChannels,
    MaxPooling,
    MomentFactors,
    PartialMoments,
    PixelSelection,
    PointwisePair,
    Rearranged,
    ResampledImage,
    RowNormalization,
    RowSoftmax,
    RowSums,
    SpreadElementwise,
    Sums,
    TensorOperation,
    WindowSums,
)
from iree.winograd.pipelines.problems.weight_gradient_group import WeightGradientGroup

_INSERTIONS = ("tensor.insert_slice", "tensor.concat")


@dataclass
class GpuLowering:
    """Lowers the groups of one module; kernels that are equal share an executable."""

    module: ir.Operation
    target: GpuTarget
    _launcher: Launcher = field(init=False)

    def __post_init__(self) -> None:
        self._launcher = Launcher(self.module, self.target)

    def lower(self, group: ConvolutionGroup | WeightGradientGroup, schedule: Schedule) -> ir.Value:
        """Emits the dispatches that compute the group's output transform, at the insertion point."""
        if reason := kernel_misfit(group.shape, self.target, schedule):
            raise ValueError(reason)
        return LOWERINGS[type(schedule)](self._launcher, group, schedule).lower()

    def lower_ranges(self, group: ConvolutionGroup, ranges: Sequence[ScheduleRange]) -> ir.Value:
        """Emits the dispatches of all ranges; only those of the range that an image is in have workgroups."""
        result, first = None, 0
        for each in ranges:
            if reason := self.range_misfit(group, each):
                raise ValueError(reason)
            launcher = replace(self._launcher, images=TileRange(first, each.below, group.shape))
            lowering = _of_convolution(launcher, group.in_range(each), each.schedule)
            result = replace(lowering, onto=result, is_of_range=True).lower()
            first = each.below or 0
        if result is None:
            raise ValueError("a convolution has at least one schedule")
        if not group.output_transform.channels_first:
            return result
        return _of_convolution(self._launcher, group, ranges[0].schedule).channels_first(result)

    def range_misfit(self, group: ConvolutionGroup, range_: ScheduleRange) -> Reason | None:
        if insertion_of(group) is None and _is_inserted(group.output_transform.result):
            return "IREE copies what several kernels write to where it is inserted"
        if range_.algorithm is not None and group.filter_transform is None:
            return "filters are transformed by another algorithm"
        # Kernels of all ranges write images that are channels last.
        shape = replace(group.in_range(range_).shape, output_channels_first=False)
        return kernel_misfit(shape, self.target, range_.schedule)

    def compute(self, operation: TensorOperation) -> ir.Value:
        """Emits the dispatches of an operation that there are kernels for."""
        if reason := misfit(operation, self.target):
            raise ValueError(reason)
        return _COMPUTED[type(operation)](self._launcher, operation)

    def count_workgroups(
        self,
        executable: ir.Operation,
        threads: int,
        *,
        held: int,
        result_is_operand: bool,
    ) -> None:
        """Raises ValueError."""
        raise ValueError("workgroups of GPUs wait for no others")


def _is_inserted(value: ir.Value) -> bool:
    """Whether some tensor becomes a part of a larger one, maybe by another shape."""
    users = readers(value)
    while len(users) == 1 and users[0].name in RESHAPES:
        users = readers(users[0].results[0])
    return any(user.name in _INSERTIONS for user in users)


def _channels_last(launcher: Launcher, operation: ChannelsLast) -> ir.Value:
    batch, _, *size = _shape(operation.image)
    element = None if operation.element is None else str(operation.element)
    return transposed(launcher, operation.image, batch, size, to_channels_first=False, element=element)


def _channels_first(launcher: Launcher, operation: ChannelsFirst) -> ir.Value:
    batch, *size, _ = _shape(operation.image)
    return transposed(launcher, operation.image, batch, size, to_channels_first=True)


def _shape(tensor: ir.Value) -> list[int | ir.Value]:
    return [size_of(tensor, dimension) for dimension in range(ir.RankedTensorType(tensor.type).rank)]


def _elementwise(launcher: Launcher, operation: SpreadElementwise | Rearranged | InsertedPart) -> ir.Value:
    if isinstance(operation, SpreadElementwise):
        result = ir.RankedTensorType(operation.elementwise.result.type)
        if not result.has_static_shape:
            return lowered_gates(launcher, operation)
    return ElementwiseLowering.of(operation).lower(launcher)


def _inserted(launcher: Launcher, operation: InsertedPart) -> ir.Value:
    """A copy: where sizes are known only at run time, of all pixels of some channels."""
    part, whole = list(operation.insertion.operands)[:2]
    if ir.RankedTensorType(whole.type).has_static_shape:
        return _elementwise(launcher, operation)
    all_of_each: tuple[tuple[PixelTap, ...], ...] = ((),) * (ir.RankedTensorType(part.type).rank - 2)
    to = match_insert(operation.insertion)
    return lowered_selection(launcher, PixelSelection(part, all_of_each, part, to))


_COMPUTED: Mapping[type, Callable[[Launcher, Any], ir.Value]] = MappingProxyType(
    {
        ChannelsFirst: _channels_first,
        ChannelsLast: _channels_last,
        InterleavedChannels: lambda launcher, each: InterleavingLowering.of(each).lower(launcher),
        MaxPooling: lowered_windows,
        WindowSums: lowered_windows,
        PixelSelection: lowered_selection,
        ResampledImage: lowered_resampling,
        RowSoftmax: lowered_rows,
        ColumnSoftmax: lowered_columns,
        RowNormalization: lowered_rows,
        BatchedProduct: lowered_product,
        BatchedAttention: lowered_attention,
        SpreadElementwise: _elementwise,
        Rearranged: _elementwise,
        RowSums: lambda launcher, operation: SumsLowering(launcher).row_sums(operation),
        InsertedPart: _inserted,
        Sums: lambda launcher, operation: SumsLowering(launcher).sums(operation),
        PartialMoments: lambda launcher, operation: SumsLowering(launcher).partial_moments(operation),
        CombinedMoments: lambda launcher, operation: SumsLowering(launcher).combined_moments(operation),
        GroupNormalization: lambda launcher, each: GroupNormLowering.of(each).lower(launcher),
        MomentFactors: lambda launcher, operation: SumsLowering(launcher).moment_factors(operation),
        GatedProduct: lambda launcher, each: _gated(launcher, each),
        PointwisePair: lowered_pair,
    }
)


def _gated(launcher: Launcher, operation: GatedProduct) -> ir.Value:
    return gated(_of_convolution(launcher, operation.group, operation.schedule), operation).lower()


def _of_convolution(launcher: Launcher, group: ConvolutionGroup, schedule: Schedule) -> ConvolutionLowering:
    lowering = LOWERINGS[type(schedule)](launcher, group, schedule)
    assert isinstance(lowering, ConvolutionLowering), "it has no misfit"
    return lowering


def _fused(launcher: Launcher, group: ConvolutionGroup, schedule: FusedSchedule) -> ConvolutionLowering:
    return FusedLowering(launcher, group, FusedPacking(group.shape, schedule))


def _implicit_gemm(
    launcher: Launcher, group: ConvolutionGroup, schedule: ImplicitGemmSchedule
) -> ConvolutionLowering:
    return ImplicitGemmLowering(launcher, group, ImplicitGemmPacking(group.shape, schedule))


def _multiply_add(launcher: Launcher, group: ConvolutionGroup, schedule: GemmSchedule) -> ConvolutionLowering:
    packing = MultiplyAddPacking(group.shape, schedule)
    channels = launcher.target.transform_channels(group.shape.transform_size)
    target = launcher.target
    product = MultiplyAddProduct(packing, channels, target.float_register, target.takes_ptx)
    return ProductLowering(launcher, group, product)


def _gemv(launcher: Launcher, group: ConvolutionGroup, schedule: GemvSchedule) -> ConvolutionLowering:
    return ProductLowering(launcher, group, GemvProduct(GemvPacking(group.shape, schedule)))


def _split(launcher: Launcher, group: ConvolutionGroup, schedule: WarpSchedule) -> ConvolutionLowering:
    packing = SplitPacking(group.shape, schedule)
    return ProductLowering(launcher, group, SplitProduct(packing, schedule))


def _warpgroup(
    launcher: Launcher, group: ConvolutionGroup, schedule: WarpgroupSchedule
) -> ConvolutionLowering:
    schedule = schedule if group.split_result is None else storing_split(schedule)
    packing = SplitPacking(group.shape, schedule)
    return ProductLowering(launcher, group, WarpgroupProduct(packing, schedule))


def _streamed(launcher: Launcher, group: ConvolutionGroup, schedule: StreamedSchedule) -> ConvolutionLowering:
    return StreamedLowering(launcher, group, StreamedPacking(group.shape, schedule))


def _depthwise(
    launcher: Launcher, group: ConvolutionGroup, schedule: GpuDepthwiseSchedule
) -> ConvolutionLowering:
    target = launcher.target
    kernel = DepthwiseKernel(
        group.shape, schedule, fetches_filters=target.takes_ptx, float_register=target.float_register
    )
    return ColumnsLowering(launcher, group, kernel)


def _direct_block(
    block_kernel: type[DirectBlockKernel],
    launcher: Launcher,
    group: ConvolutionGroup,
    schedule: BlockSchedule,
) -> ConvolutionLowering:
    target = launcher.target
    kernel = block_kernel(
        group.shape, schedule, takes_ptx=target.takes_ptx, float_register=target.float_register
    )
    return ColumnsLowering(launcher, group, kernel)


def _depthwise_strip(
    launcher: Launcher, group: ConvolutionGroup, schedule: DepthwiseStripSchedule
) -> ConvolutionLowering:
    kernel = DepthwiseStripKernel(group.shape, schedule, takes_ptx=launcher.target.takes_ptx)
    return ColumnsLowering(launcher, group, kernel)


def _depthwise_toeplitz(
    launcher: Launcher, group: ConvolutionGroup, schedule: DepthwiseToeplitzSchedule
) -> ConvolutionLowering:
    return ColumnsLowering(launcher, group, DepthwiseToeplitzKernel(group.shape, schedule))


def _grouped(launcher: Launcher, group: ConvolutionGroup, schedule: GroupedSchedule) -> ConvolutionLowering:
    kernel = GroupedKernel(group.shape, schedule, fetches_filters=launcher.target.takes_ptx)
    return ColumnsLowering(launcher, group, kernel)


def _grouped_ring(
    launcher: Launcher, group: ConvolutionGroup, schedule: GroupedRingSchedule
) -> ConvolutionLowering:
    return ColumnsLowering(launcher, group, GroupedRingKernel(group.shape, schedule))


def _gradient(
    launcher: Launcher, group: WeightGradientGroup, schedule: MultiplyAddWeightGradientSchedule
) -> WeightGradientLowering:
    packing = WeightGradientPacking(group.shape, schedule)
    return WeightGradientLowering(launcher, group, MultiplyAddTileProductKernel(packing, schedule))


def _matrix_gradient(
    launcher: Launcher, group: WeightGradientGroup, schedule: MatrixWeightGradientSchedule
) -> WeightGradientLowering:
    packing = WeightGradientPacking(group.shape, schedule)
    return WeightGradientLowering(launcher, group, MatrixTileProductKernel(packing, schedule))


def _half_gradient(
    launcher: Launcher, group: WeightGradientGroup, schedule: HalfWeightGradientSchedule
) -> WeightGradientLowering:
    packing = WeightGradientPacking(group.shape, schedule)
    return WeightGradientLowering(launcher, group, HalfTileProductKernel(packing, schedule))


LOWERINGS: Mapping[
    type[Schedule], Callable[[Launcher, Any, Any], ConvolutionLowering | WeightGradientLowering]
] = MappingProxyType(
    {
        GemmSchedule: _multiply_add,
        GemvSchedule: _gemv,
        MfmaGemmSchedule: _multiply_add,
        SplitSchedule: _split,
        CooperativeSchedule: _split,
        MfmaSchedule: _split,
        WmmaRdna4Schedule: _split,
        WmmaSchedule: _split,
        WarpgroupSchedule: _warpgroup,
        ImplicitGemmSchedule: _implicit_gemm,
        StreamedSchedule: _streamed,
        FusedSchedule: _fused,
        GpuDepthwiseSchedule: _depthwise,
        DepthwiseBlockSchedule: partial(_direct_block, DepthwiseBlockKernel),
        DepthwiseStripSchedule: _depthwise_strip,
        DepthwiseToeplitzSchedule: _depthwise_toeplitz,
        GroupedBlockSchedule: partial(_direct_block, GroupedBlockKernel),
        GroupedSchedule: _grouped,
        GroupedRingSchedule: _grouped_ring,
        MultiplyAddWeightGradientSchedule: _gradient,
        MatrixWeightGradientSchedule: _matrix_gradient,
        HalfWeightGradientSchedule: _half_gradient,
    }
)
"""The kernels of each class of schedules."""
