"""From a group of winograd ops to dispatches of GPU kernels."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from iree.winograd.dialect.bindings import ir
from iree.winograd.dialect.ops import GradientTransformOp, InputTransformOp
from iree.winograd.passes.build.tensors import size_of
from iree.winograd.passes.match.constants import Array, constant_array
from iree.winograd.passes.match.image_layout import to_channels_last
from iree.winograd.passes.match.slices import match_slice
from iree.winograd.pipelines.emission.dispatch import KernelFunction, kernel_name
from iree.winograd.pipelines.emission.epilogue import VectorEpilogue, epilogue_text, reads_along_channels
from iree.winograd.pipelines.emission.filter_layout import FilterLayout
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.work import Sizes
from iree.winograd.pipelines.gpu.device.launch import Launcher, TensorArgument
from iree.winograd.pipelines.gpu.device.memory import QUAD, GlobalBuffer
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.gpu.kernels.depthwise import DepthwiseKernel
from iree.winograd.pipelines.gpu.kernels.fused import FusedKernel
from iree.winograd.pipelines.gpu.kernels.gemm import MultiplyAddProduct
from iree.winograd.pipelines.gpu.kernels.image_transposition import (
    TRANSPOSITION_THREADS,
    ImageTransposition,
)
from iree.winograd.pipelines.gpu.kernels.implicit_gemm import ImplicitGemmKernel
from iree.winograd.pipelines.gpu.kernels.matrix_tile_product import MatrixTileProductKernel
from iree.winograd.pipelines.gpu.kernels.products import Product, ProductKernel
from iree.winograd.pipelines.gpu.kernels.split import SplitProduct
from iree.winograd.pipelines.gpu.kernels.tile_product import TileProductKernel
from iree.winograd.pipelines.gpu.kernels.transforms import (
    TRANSFORM_THREADS,
    FilterTransformKernel,
    OperandKernel,
    OutputTransformKernel,
)
from iree.winograd.pipelines.gpu.kernels.warpgroup import WarpgroupProduct
from iree.winograd.pipelines.gpu.kernels.weight_gradient import (
    FilterGradientKernel,
    GradientTileKernel,
    ImageTileKernel,
    MultiplyAddTileProductKernel,
    TileKernel,
    TotalKernel,
)
from iree.winograd.pipelines.gpu.packing.fused import FusedPacking
from iree.winograd.pipelines.gpu.packing.implicit_gemm import ImplicitGemmPacking
from iree.winograd.pipelines.gpu.packing.products import MultiplyAddPacking, ProductPacking
from iree.winograd.pipelines.gpu.packing.split import SplitPacking
from iree.winograd.pipelines.gpu.packing.weight_gradient import WeightGradientPacking
from iree.winograd.pipelines.gpu.schedules.depthwise import GpuDepthwiseSchedule
from iree.winograd.pipelines.gpu.schedules.fit import refusal
from iree.winograd.pipelines.gpu.schedules.fused import FusedSchedule
from iree.winograd.pipelines.gpu.schedules.gemm import GemmSchedule
from iree.winograd.pipelines.gpu.schedules.implicit_gemm import ImplicitGemmSchedule
from iree.winograd.pipelines.gpu.schedules.matrix import MatrixSchedule
from iree.winograd.pipelines.gpu.schedules.split import WarpSchedule
from iree.winograd.pipelines.gpu.schedules.warpgroup import WarpgroupSchedule
from iree.winograd.pipelines.gpu.schedules.weight_gradient import (
    GpuWeightGradientSchedule,
    MatrixWeightGradientSchedule,
    MultiplyAddWeightGradientSchedule,
)
from iree.winograd.pipelines.gpu.tensor_kernels import misfit
from iree.winograd.pipelines.specification.group import ConvolutionGroup
from iree.winograd.pipelines.specification.schedule import Schedule
from iree.winograd.pipelines.specification.shape import ConvolutionShape
from iree.winograd.pipelines.specification.tensor_operations import ChannelsLast, TensorOperation
from iree.winograd.pipelines.specification.weight_gradient_group import WeightGradientGroup


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
        shape = group.shape
        if reason := refusal(shape, self.target, schedule):
            raise ValueError(reason)
        if isinstance(group, WeightGradientGroup):
            assert isinstance(schedule, GpuWeightGradientSchedule)
            tiles = WeightGradientPacking(group.shape, schedule)
            return _WeightGradientLowering(self._launcher, group, tiles).lower()
        if isinstance(schedule, FusedSchedule):
            return _FusedLowering(self._launcher, group).fused(FusedPacking(shape, schedule))
        if isinstance(schedule, GpuDepthwiseSchedule):
            return _DepthwiseLowering(self._launcher, group).depthwise(schedule)
        if isinstance(schedule, ImplicitGemmSchedule):
            packing = ImplicitGemmPacking(shape, schedule)
            return _ImplicitGemmLowering(self._launcher, group).direct(packing)
        assert isinstance(schedule, GemmSchedule | MatrixSchedule)
        lowering = _SeparateLowering(self._launcher, group, _product(shape, schedule))
        if shape.transform_size == 1 and schedule.reduction_parts == 1:
            return lowering.direct()
        return lowering.transformed()

    def compute(self, operation: TensorOperation) -> ir.Value:
        """Emits the dispatch that makes images channels last, the operation there is a kernel for."""
        if reason := misfit(operation):
            raise ValueError(reason)
        assert isinstance(operation, ChannelsLast)
        batch, channels, *size = TensorArgument.of(operation.image, by_quads=False).extents
        assert channels is not None
        kernel = ImageTransposition.channels_last(channels, [each for each in size if each is not None])
        return _transposed(self._launcher, operation.image, kernel, (batch, *size, channels))

    def count_workgroups(
        self,
        executable: ir.Operation,
        grid: tuple[int, ...],
        threads: int,
        *,
        held: int,
        result_is_operand: bool,
    ) -> None:
        """Raises ValueError."""
        raise ValueError("workgroups of GPUs wait for no others")


@dataclass(frozen=True)
class _Lowering:
    """The dispatches of one group."""

    launcher: Launcher
    group: ConvolutionGroup

    def _finish(
        self,
        kernel: object,
        stage: str,
        threads: int,
        operands: list[tuple[ir.Value, TensorArgument]],
        workgroups: Callable[[Sizes], tuple[Index, ...]],
        emit: Callable[..., None],
        by_quads: bool,
        resident_threads: int | None = None,
        warp_threads: int | None = None,
        *,
        writes_channels_first: bool = False,
    ) -> ir.Value:
        """Launches the kernel that applies the epilogue and writes the result, by quads or singly.

        Another one transposes images that are to be channels first, unless the kernel writes such.
        """
        transform = self.group.output_transform
        epilogue_operands = [
            (operand, TensorArgument.of(operand, by_quads and reads_along_channels(indexing_map)))
            for operand, indexing_map in zip(
                transform.epilogue_operands, transform.indexing_maps, strict=True
            )
        ]

        insertion, updated = self.group.interleaving, None
        channels, size = transform.image_type.shape[-1], transform.image_type.shape[1:-1]
        result = _array_of(transform.result, by_quads, channels_first=transform.channels_first)
        is_transposed = transform.channels_first and not writes_channels_first
        if is_transposed:
            result = TensorArgument((result.extents[0], *size, channels), by_quads)
        if insertion is not None:
            updated, part = insertion.operands[1], match_slice(insertion)
            assert part is not None
            result = TensorArgument.of(updated, by_quads).part(part.offsets, part.strides)

        def body(function: KernelFunction[GlobalBuffer]) -> None:
            *buffers, output = function.buffers
            own, others = buffers[: len(operands)], buffers[len(operands) :]
            epilogue = VectorEpilogue(transform, others)
            emit(function.work, *own, output, epilogue.emit)

        outputs = self.launcher.launch(
            (kernel, epilogue_text(transform)),
            kernel_name(self.group.shape, stage),
            threads,
            [*operands, *epilogue_operands],
            result,
            self._batch,
            workgroups,
            body,
            resident_threads,
            warp_threads,
            updated,
        )
        if not is_transposed:
            return outputs
        transposition = ImageTransposition.channels_first(channels, size)
        return _transposed(self.launcher, outputs, transposition, (result.extents[0], channels, *size))

    def _filters(
        self, packing: ProductPacking | FusedPacking, kernel_for: Callable[[FilterLayout], OperandKernel]
    ) -> tuple[ir.Value, TensorArgument]:
        """The packed filters: a constant, or what a kernel transforms and packs."""
        constant = self._folded(packing, packing.pack_filters)
        if constant is not None:
            return constant, TensorArgument.of(constant, True)
        result = TensorArgument(packing.filter_extents(), True)
        filters, layout = self._runtime_filter()
        kernel = kernel_for(layout)
        packed = self.launcher.launch(
            kernel,
            kernel_name(self.group.shape, "filter"),
            kernel.threads,
            [self._filter_argument(filters, layout)],
            result,
            1,
            kernel.workgroups,
            lambda function: kernel.emit(function.work, *function.buffers),
        )
        return packed, result

    def _folded(self, how: Hashable, pack: Callable[[Array], Array]) -> ir.Value | None:
        """The transformed filters as `pack` lays them out, told by `how`; None where they aren't constant."""
        transformed = self.group.transformed_filter

        def compute() -> Array | None:
            folded = constant_array(transformed)
            return None if folded is None else pack(folded)

        return self.launcher.constants.computed(transformed, how, "winograd_packed_filter", compute)

    def _runtime_filter(self) -> tuple[ir.Value, FilterLayout]:
        transform = self.group.filter_transform
        if transform is None:
            raise ValueError("its filters are neither constant nor the result of winograd.filter_transform")
        return transform.filter, FilterLayout(transform.permutation, transform.flipped)

    def _filter_argument(self, filters: ir.Value, layout: FilterLayout) -> tuple[ir.Value, TensorArgument]:
        """Filters as they are in memory, by quads where output channels are neighbours there."""
        by_quads = layout.outputs_are_innermost and self.group.shape.group_outputs % QUAD == 0
        return filters, TensorArgument.of(filters, by_quads)

    def _image(self, by_quads: bool) -> tuple[ir.Value, TensorArgument]:
        return _image_argument(self.group.input_transform, by_quads)

    @property
    def _batch(self) -> int | ir.Value:
        return size_of(self.group.input_transform.input, 0)


@dataclass(frozen=True)
class _SeparateLowering(_Lowering):
    """One kernel for each stage, or one that needs no transforms."""

    product: Product

    def transformed(self) -> ir.Value:
        """Kernels that transform the input, if the product asks for it, multiply, and transform back."""
        packing = self.product.packing
        left = self._left()
        multiply, finish = ProductKernel(self.product), OutputTransformKernel(packing)
        products = self._packed(packing.product_extents())
        product = self.launcher.launch(
            multiply,
            kernel_name(self.group.shape, "products"),
            packing.schedule.threads,
            [left, self._filters(packing, self.product.filter_kernel)],
            products,
            self._batch,
            multiply.workgroups,
            lambda function: multiply.emit(function.work, *function.buffers),
            packing.schedule.resident_threads,
            packing.schedule.warp_threads,
        )
        return self._finish(
            finish,
            "output",
            TRANSFORM_THREADS,
            [(product, products)],
            finish.workgroups,
            finish.emit,
            packing.output_by_quads,
        )

    def direct(self) -> ir.Value:
        """Products that are the results: one kernel where they are of the image in place."""
        packing = self.product.packing
        kernel = ProductKernel(self.product)
        return self._finish(
            kernel,
            "direct",
            packing.schedule.threads,
            [self._left(), self._filters(packing, self.product.filter_kernel)],
            kernel.workgroups,
            kernel.emit_direct,
            packing.output_by_quads,
            packing.schedule.resident_threads,
            packing.schedule.warp_threads,
        )

    def _left(self) -> tuple[ir.Value, TensorArgument]:
        """The left operand of the products."""
        packing = self.product.packing
        kernel = self.product.input_kernel
        if kernel is None:
            return self._image(packing.image_by_quads)
        result = self._packed(packing.input_extents())
        transformed = self.launcher.launch(
            kernel,
            kernel_name(self.group.shape, "input"),
            kernel.threads,
            [self._image(packing.image_by_quads)],
            result,
            self._batch,
            kernel.workgroups,
            lambda function: kernel.emit(function.work, *function.buffers),
            warp_threads=packing.schedule.warp_threads,
        )
        return transformed, result

    def _packed(self, extents: tuple[int, ...]) -> TensorArgument:
        """An intermediate tensor of the given extents per block of tiles."""
        packing = self.product.packing
        if isinstance(self._batch, int):
            blocks = packing.row_blocks(Sizes.of_batch(self._batch)).known
            return TensorArgument((blocks, *extents), True)
        return TensorArgument((None, *extents), True, packing.row_blocks)


@dataclass(frozen=True)
class _DepthwiseLowering(_Lowering):
    """One kernel without a matrix product."""

    def depthwise(self, schedule: GpuDepthwiseSchedule) -> ir.Value:
        kernel = DepthwiseKernel(self.group.shape, schedule)
        by_quads = kernel.shape.output_channels % QUAD == 0

        def by_taps(folded: Array) -> Array:
            rows = np.empty(kernel.filter_extents, np.float32)
            rows[list(kernel.tap_of_view)] = folded[:, :, 0].T
            return rows

        constant = self._folded(kernel, by_taps)
        if constant is not None:
            filters = constant, TensorArgument.of(constant, by_quads)
        else:
            weights, layout = self._runtime_filter()
            kernel = replace(kernel, layout=layout)
            is_innermost = layout.outputs_are_innermost
            filters = weights, TensorArgument.of(weights, by_quads and is_innermost)
        return self._finish(
            kernel,
            "depthwise",
            kernel.schedule.threads,
            [self._image(by_quads), filters],
            kernel.workgroups,
            kernel.emit,
            by_quads,
        )


@dataclass(frozen=True)
class _FusedLowering(_Lowering):
    """One kernel for all stages."""

    def fused(self, packing: FusedPacking) -> ir.Value:
        kernel = FusedKernel(packing)
        schedule = packing.schedule
        return self._finish(
            kernel,
            "fused",
            schedule.threads,
            [self._image(by_quads=False), self._filters(packing, partial(FilterTransformKernel, packing))],
            kernel.workgroups,
            kernel.emit,
            packing.output_by_quads,
            schedule.resident_threads,
        )


@dataclass(frozen=True)
class _ImplicitGemmLowering(_Lowering):
    """One kernel that splits or rounds the image as it multiplies."""

    def direct(self, packing: ImplicitGemmPacking) -> ir.Value:
        kernel = ImplicitGemmKernel(packing)
        return self._finish(
            kernel,
            "direct",
            packing.schedule.threads,
            [self._image(packing.image_by_quads), self._filters(packing, kernel.filter_kernel)],
            kernel.workgroups,
            kernel.emit,
            True,
            packing.schedule.resident_threads,
            writes_channels_first=True,
        )


@dataclass(frozen=True)
class _WeightGradientLowering:
    """Kernels that transform both operands, multiply, add what blocks of tiles gave, and transform back."""

    launcher: Launcher
    group: WeightGradientGroup
    packing: WeightGradientPacking

    def lower(self) -> ir.Value:
        packing, by_quads = self.packing, self.packing.output_by_quads
        images = _image_argument(self.group.input_transform, packing.image_by_quads)
        if not packing.images_are_packed:
            packed = TensorArgument(packing.image_extents, True)
            images = self._stage(ImageTileKernel(packing), "images", [images], packed)
        gradients = _image_argument(self.group.gradient_transform, by_quads)
        if not packing.gradients_are_packed:
            packed = TensorArgument(packing.gradient_extents, True)
            gradients = self._stage(GradientTileKernel(packing), "gradients", [gradients], packed)
        threads, resident = packing.schedule.threads, packing.schedule.resident_threads
        blocks = TensorArgument(packing.product_extents(packing.tile_blocks), True)
        products = self._stage(self._product(), "products", [images, gradients], blocks, threads, resident)
        if packing.tile_blocks > 1:
            total = TensorArgument(packing.product_extents(1), True)
            products = self._stage(TotalKernel(packing), "total", [products], total)
        order = self.group.filter_gradient.permutation
        result = TensorArgument.permuted(self.group.filter_gradient.result, order, by_quads)
        kernel = FilterGradientKernel(packing, order[-1] == len(order) - 1)
        value, _ = self._stage(kernel, "weights", [products], result)
        return value

    def _product(self) -> TileProductKernel:
        schedule = self.packing.schedule
        if isinstance(schedule, MatrixWeightGradientSchedule):
            return MatrixTileProductKernel(self.packing, schedule)
        assert isinstance(schedule, MultiplyAddWeightGradientSchedule)
        return MultiplyAddTileProductKernel(self.packing, schedule)

    def _stage(
        self,
        kernel: TileKernel | TileProductKernel | TotalKernel | FilterGradientKernel,
        stage: str,
        operands: list[tuple[ir.Value, TensorArgument]],
        result: TensorArgument,
        threads: int = TRANSFORM_THREADS,
        resident_threads: int | None = None,
    ) -> tuple[ir.Value, TensorArgument]:
        """What the dispatch of a stage gives."""
        batch = self.packing.shape.batch
        assert batch is not None, "gradients of filters need a static batch"
        value = self.launcher.launch(
            kernel,
            kernel_name(self.packing.shape, stage),
            threads,
            operands,
            result,
            batch,
            kernel.workgroups,
            lambda function: kernel.emit(function.work, *function.buffers),
            resident_threads,
        )
        return value, result


def _transposed(
    launcher: Launcher, image: ir.Value, kernel: ImageTransposition, extents: tuple[int | None, ...]
) -> ir.Value:
    """An image in the other layout, of `extents`."""
    source = TensorArgument.of(image, by_quads=False)
    return launcher.launch(
        kernel,
        kernel.name,
        TRANSPOSITION_THREADS,
        [(image, source)],
        replace(source, extents=extents),
        size_of(image, 0),
        kernel.workgroups,
        lambda function: kernel.emit(function.work, *function.buffers),
    )


def _image_argument(
    transform: InputTransformOp | GradientTransformOp, by_quads: bool
) -> tuple[ir.Value, TensorArgument]:
    """What a transform reads, as an array N x H... x C of a kernel."""
    (image,) = transform.operands
    return image, _array_of(image, by_quads, channels_first=transform.channels_first)


def _array_of(image: ir.Value, by_quads: bool, *, channels_first: bool) -> TensorArgument:
    """An image of either layout as an array N x H... x C of a kernel."""
    rank = ir.RankedTensorType(image.type).rank
    return TensorArgument.permuted(image, to_channels_last(rank) if channels_first else range(rank), by_quads)


def _product(shape: ConvolutionShape, schedule: GemmSchedule | MatrixSchedule) -> Product:
    if isinstance(schedule, GemmSchedule):
        return MultiplyAddProduct(MultiplyAddPacking(shape, schedule))
    packing = SplitPacking(shape, schedule)
    if isinstance(schedule, WarpgroupSchedule):
        return WarpgroupProduct(packing, schedule)
    assert isinstance(schedule, WarpSchedule)
    return SplitProduct(packing, schedule)
