"""From the ops of one convolution to dispatches of GPU kernels, a class for each kind of kernels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.constants import resource_constant
from iree.winograd.passes.build.tensors import size_of
from iree.winograd.passes.infrastructure.algorithm import TAKES_FILTER_ATTRIBUTE_NAME
from iree.winograd.passes.match.layouts.channel_slice import match_extract
from iree.winograd.passes.match.layouts.image_layout import to_channels_last
from iree.winograd.passes.match.navigation import LAYOUT_CAST, defining_operation, is_empty, unreshaped
from iree.winograd.passes.match.slices import match_slice
from iree.winograd.passes.match.values.constants import AT_LOAD_ATTRIBUTE, Array, constant_array
from iree.winograd.pipelines.emission.convolution_signature import (
    image_tensor,
    read_tensor,
    size_of_group,
    spatial_sizes,
)
from iree.winograd.pipelines.emission.dispatch import kernel_name
from iree.winograd.pipelines.emission.epilogue import reads_along_channels
from iree.winograd.pipelines.emission.filter_layout import FilterLayout
from iree.winograd.pipelines.emission.work import BATCH, Size
from iree.winograd.pipelines.gpu.device.launch import (
    Launcher,
    LaunchSizes,
    Operand,
    TensorArgument,
    WorkgroupThreads,
    told,
)
from iree.winograd.pipelines.gpu.device.memory import QUAD
from iree.winograd.pipelines.gpu.kernels.direct.direct import DirectKernel
from iree.winograd.pipelines.gpu.kernels.direct.finishing import FinishingKernel, LastKernel
from iree.winograd.pipelines.gpu.kernels.direct.implicit_gemm import ImplicitGemmKernel
from iree.winograd.pipelines.gpu.kernels.direct.streamed import StreamedKernel
from iree.winograd.pipelines.gpu.kernels.matrix_products.products import (
    DirectProductKernel,
    Product,
    ProductKernel,
)
from iree.winograd.pipelines.gpu.kernels.matrix_products.split_results import SplitResultKernel, bound_of
from iree.winograd.pipelines.gpu.kernels.winograd.fused import FusedKernel
from iree.winograd.pipelines.gpu.kernels.winograd.transforms import (
    TRANSFORM_THREADS,
    FilterTransformKernel,
    OperandKernel,
    OutputTransformKernel,
)
from iree.winograd.pipelines.gpu.lowerings.image_arguments import (
    channels_of,
    image_array,
    image_operand,
    transposed,
)
from iree.winograd.pipelines.gpu.lowerings.in_place import holds_channels, insertion_of, source_of
from iree.winograd.pipelines.gpu.packing.fused import FusedPacking
from iree.winograd.pipelines.gpu.packing.implicit_gemm import ImplicitGemmPacking
from iree.winograd.pipelines.gpu.packing.products import ProductPacking
from iree.winograd.pipelines.gpu.packing.split import SPLIT, SplitPacking, SplitRows
from iree.winograd.pipelines.gpu.packing.streamed import StreamedPacking
from iree.winograd.pipelines.problems.group import ConvolutionGroup
from iree.winograd.pipelines.problems.split_result import SplitResult

_ROW_BLOCKS = Size("row_blocks")
"""Of what the kernels of a convolution pass to each other."""


@dataclass(frozen=True)
class ConvolutionLowering(ABC):
    """The dispatches of one convolution."""

    launcher: Launcher
    group: ConvolutionGroup
    onto: ir.Value | None = field(default=None, kw_only=True)
    """What dispatches for images of other sizes gave, which is to be what these give, too."""
    is_of_range: bool = field(default=False, kw_only=True)
    """Whether there are dispatches for images of other sizes: what all of them write is channels last."""

    @abstractmethod
    def lower(self) -> ir.Value:
        """Emits the dispatches at the insertion point; gives what the last op of the group does."""

    def _finished(
        self,
        kernel: LastKernel,
        stage: str,
        threads: WorkgroupThreads,
        operands: list[Operand],
        by_quads: bool,
        *,
        writes_channels_first: bool = False,
    ) -> ir.Value:
        """Launches the kernel that applies the epilogue and writes the result, by quads or singly.

        Another one transposes images that are to be channels first, unless the kernel writes such, behind
        those of all ranges.
        """
        transform = self.group.output_transform
        is_transposed = transform.channels_first and (self.is_of_range or not writes_channels_first)
        result = image_array(transform.result, "output", by_quads, channels_first=transform.channels_first)
        if is_transposed:
            order = to_channels_last(len(result.extents))
            extents = tuple(result.extents[dimension] for dimension in order)
            result = TensorArgument(extents, result.element, by_quads, result.dynamic)
        insertion, updated = insertion_of(self.group), self.onto
        if insertion is not None:
            whole, part = insertion.operands[1], match_slice(insertion, of_any_size=True)
            assert part is not None
            tensor = image_tensor(whole.type, self._size_of_result, channels_first=False)
            result = TensorArgument.of(whole, by_quads, tensor).part(part.offsets, part.strides)
            # IREE would make an empty operand a constant, of which it copies all before a part is written.
            updated = whole if updated is None and not is_empty(whole) else updated
        outputs = self._launch_last(kernel, stage, threads, operands, by_quads, result, updated)
        return self.channels_first(outputs) if is_transposed and not self.is_of_range else outputs

    def _launch_last(
        self,
        kernel: LastKernel,
        stage: str,
        threads: WorkgroupThreads,
        operands: list[Operand],
        by_quads: bool,
        result: TensorArgument,
        updated: ir.Value | None = None,
    ) -> ir.Value:
        """Launches the kernel that applies the epilogue, and gives its result."""
        transform = self.group.output_transform
        reads = zip(transform.epilogue_operands, transform.indexing_maps, strict=True)
        others = [_read_by_epilogue(*read, by_quads=by_quads) for read in reads]
        return self.launcher.launch(
            FinishingKernel.of(kernel, len(operands), transform, self.launcher.target),
            kernel_name(self.group.shape, stage),
            threads,
            [*operands, *others],
            result,
            self._last_sizes,
            updated,
        )

    def channels_first(self, outputs: ir.Value) -> ir.Value:
        """Launches the kernel that transposes outputs."""
        size = [self._size(Size("output", d)) for d in range(len(self.group.shape.output_size))]
        return transposed(self.launcher, outputs, self._size(BATCH), size, to_channels_first=True)

    def _filters(
        self, packing: ProductPacking | FusedPacking, kernel_for: Callable[[FilterLayout], OperandKernel]
    ) -> Operand:
        """The packed filters: a constant, or what a kernel transforms and packs."""
        constant = self._folded(packing, packing.pack_filters)
        if constant is not None:
            return constant, replace(TensorArgument.of(constant, True), is_constant=True)
        result = TensorArgument(packing.filter_extents(), packing.operand_element, True)
        # The filters may yet be computed of constants, and IREE evaluates these on the host, for which there
        # is no code of this kernel.
        module = self.launcher.module
        module.attributes[AT_LOAD_ATTRIBUTE] = ir.UnitAttr.get(module.context)
        filters, layout = self._runtime_filter()
        kernel = kernel_for(layout)
        name = kernel_name(self.group.shape, "filter")
        operands = [self._filter_operand(filters, layout)]
        packed = self.launcher.launch(kernel, name, WorkgroupThreads(kernel.threads), operands, result)
        return packed, result

    def _folded(self, how: Hashable, pack: Callable[[Array], Array]) -> ir.Value | None:
        """The transformed filters as `pack` lays them out, told by `how`; None where they aren't constant."""
        group, source = self.group, self.group.transformed_filter
        transform = group.filter_transform
        is_taken = transform is not None and TAKES_FILTER_ATTRIBUTE_NAME in group.product.attributes
        if transform is not None and is_taken:
            # Kernels of several algorithms read them.
            source, how = transform.filter, (how, tuple(transform.permutation), transform.flipped)

        def compute() -> Array | None:
            taps = group.transformed_taps(group.shape.decomposition) if is_taken else constant_array(source)
            return None if taps is None else pack(taps)

        return self.launcher.constants.computed(source, how, "winograd_packed_filter", compute)

    def _runtime_filter(self) -> tuple[ir.Value, FilterLayout]:
        transform = self.group.filter_transform
        if transform is None:
            raise ValueError("its filters are neither constant nor the result of winograd.filter_transform")
        return transform.filter, FilterLayout(transform.permutation, transform.flipped)

    def _filter_operand(self, filters: ir.Value, layout: FilterLayout) -> Operand:
        """Filters as they are in memory, by quads where output channels are neighbours there."""
        by_quads = layout.outputs_are_innermost and self.group.shape.group_outputs % QUAD == 0
        return filters, TensorArgument.of(filters, by_quads)

    def _image(self, by_quads: bool) -> Operand:
        source, image = source_of(self.group), self.group.input_transform.input
        if source.whole == image:
            return image_operand(self.group.input_transform, by_quads)
        return channels_of(source, by_quads)

    @cached_property
    def _sizes(self) -> LaunchSizes:
        """The sizes that kernels of images are told."""
        return {size: self._size(size) for size in (BATCH, *dict(spatial_sizes(self.group.shape)))}

    @property
    def _size_of_result(self) -> str:
        """What the sizes are of that the result has: of outputs, or of what these are inserted between."""
        return "output" if self.group.interleaving is None else "whole"

    @property
    def _last_sizes(self) -> LaunchSizes:
        """The sizes that the last kernel is told: those of a larger tensor of unknown sizes, too."""
        insertion = insertion_of(self.group)
        if insertion is None or self._size_of_result == "output":
            return self._sizes
        whole = ir.RankedTensorType(insertion.operands[1].type)
        unknown = [d for d in range(whole.rank - 2) if whole.is_dynamic_dim(1 + d)]
        values = {Size("whole", d): size_of(insertion.operands[1], 1 + d) for d in unknown}
        return {**self._sizes, **values}

    def _size(self, size: Size) -> int | ir.Value:
        found = size_of_group(self.group, size, insertion_of(self.group))
        return found.value if found.known is None else found.known


def _read_by_epilogue(operand: ir.Value, indexing_map: ir.AffineMap, *, by_quads: bool) -> Operand:
    """What an epilogue reads by a map: some of the last elements of a larger tensor where they lie."""
    is_by_quads = by_quads and reads_along_channels(indexing_map)
    type_, source = ir.RankedTensorType(operand.type), match_extract(operand)
    if source.whole == operand or not holds_channels(
        ir.RankedTensorType(source.whole.type), source.first, type_.shape[-1]
    ):
        return operand, TensorArgument.of(operand, is_by_quads, read_tensor(type_, indexing_map))
    part = TensorArgument.of(source.whole, is_by_quads, read_tensor(source.whole.type, indexing_map))
    return source.whole, part.from_channel(source.first)


@dataclass(frozen=True)
class ProductLowering(ConvolutionLowering):
    """One kernel for each stage, or one that needs no transforms."""

    product: Product

    def lower(self) -> ir.Value:
        is_direct = self.group.shape.transform_size == 1
        is_whole = self.product.packing.schedule.reduction_parts == 1
        return self._direct() if is_direct and is_whole else self._transformed()

    def _transformed(self) -> ir.Value:
        """Kernels that transform the input, if the product asks for it, multiply, and transform back."""
        packing = self.product.packing
        operands = [self._left(), self._filters(packing, self.product.filter_kernel)]
        result = self._packed(packing.product_extents(), packing.shape.element_types.accumulator)
        name = kernel_name(self.group.shape, "products")
        products = self.launcher.launch(
            ProductKernel(self.product), name, self._threads, operands, result, self._sizes
        )
        transforming = WorkgroupThreads(TRANSFORM_THREADS)
        elements, parts = packing.shape.transform_size, packing.schedule.reduction_parts
        channels = self.launcher.target.transform_channels(elements, parts)
        kernel = OutputTransformKernel(packing, channels, self.launcher.target.takes_ptx)
        return self._finished(kernel, "output", transforming, [(products, result)], packing.output_by_quads)

    def _direct(self) -> ir.Value:
        """Products that are the results: one kernel where they are of the image in place."""
        packing = self.product.packing
        operands = [self._left(), self._filters(packing, self.product.filter_kernel)]
        split = self.group.split_result
        if split is not None:
            return self._launch_split(split, operands)
        kernel = DirectProductKernel(self.product)
        return self._finished(kernel, "direct", self._threads, operands, packing.output_by_quads)

    def _launch_split(self, split: SplitResult, operands: list[Operand]) -> ir.Value:
        """Results that are stored as the left operand of the next product."""
        packing = self.product.packing
        assert isinstance(packing, SplitPacking), "others' results aren't stored so"
        layout = SplitRows.of(split.block_rows, packing)
        tiles = packing.tiles(told(self._sizes)).known
        assert tiles is not None, "of unknown sizes they aren't, either"
        result = TensorArgument((ceil_div(tiles, split.block_rows), *layout.extents), SPLIT.name, True)
        bound = resource_constant(bound_of(split), "winograd_bound_of_result")
        operands = [*operands, (bound, TensorArgument.of(bound, by_quads=False))]
        kernel = SplitResultKernel(self.product, split.block_rows)
        return self._launch_last(kernel, "direct", self._threads, operands, packing.output_by_quads, result)

    @property
    def _threads(self) -> WorkgroupThreads:
        schedule = self.product.packing.schedule
        return WorkgroupThreads(schedule.threads, schedule.resident_threads, schedule.warp_threads)

    def _left(self) -> Operand:
        """The left operand of the products."""
        packing = self.product.packing
        kernel = self.product.input_kernel
        if kernel is None:
            return self._image(packing.image_by_quads)
        result = self._packed(packing.input_extents(), packing.operand_element)
        stored = defining_operation(unreshaped(self.group.input_transform.input))
        if stored is not None and stored.name == LAYOUT_CAST:
            return stored.operands[0], result
        name = kernel_name(self.group.shape, "input")
        threads = WorkgroupThreads(kernel.threads, warp=packing.schedule.warp_threads)
        operands = [self._image(packing.image_by_quads)]
        return self.launcher.launch(kernel, name, threads, operands, result, self._sizes), result

    def _packed(self, extents: tuple[int, ...], element: str) -> TensorArgument:
        """An intermediate tensor of the given extents per block of tiles."""
        packing = self.product.packing
        blocks = packing.row_blocks(told(self._sizes))
        if blocks.known is not None:
            return TensorArgument((blocks.known, *extents), element, True)
        return TensorArgument((None, *extents), element, True, (_ROW_BLOCKS,), packing.row_blocks)


@dataclass(frozen=True)
class ColumnsLowering(ConvolutionLowering):
    """One kernel without a matrix product."""

    kernel: DirectKernel

    def lower(self) -> ir.Value:
        kernel = self.kernel
        by_quads = kernel.shape.output_channels % QUAD == 0
        constant = self._folded(kernel, kernel.pack_filters)
        if constant is not None:
            filters = constant, replace(TensorArgument.of(constant, by_quads), is_constant=True)
        else:
            weights, layout = self._runtime_filter()
            filters = weights, TensorArgument.of(weights, by_quads and layout.outputs_are_innermost)
            kernel = replace(kernel, layout=layout)
        schedule = kernel.schedule
        threads = WorkgroupThreads(schedule.threads, schedule.resident_threads)
        return self._finished(kernel, schedule.stage, threads, [self._image(by_quads), filters], by_quads)


@dataclass(frozen=True)
class FusedLowering(ConvolutionLowering):
    """One kernel for all stages."""

    packing: FusedPacking

    def lower(self) -> ir.Value:
        packing = self.packing
        filters = self._filters(packing, lambda layout: FilterTransformKernel(packing, layout))
        operands = [self._image(by_quads=False), filters]
        threads = WorkgroupThreads(packing.schedule.threads, packing.schedule.resident_threads)
        kernel = FusedKernel(packing, self.launcher.target.takes_ptx)
        return self._finished(kernel, "fused", threads, operands, packing.output_by_quads)


@dataclass(frozen=True)
class ImplicitGemmLowering(ConvolutionLowering):
    """One kernel that splits or rounds the image as it multiplies."""

    packing: ImplicitGemmPacking

    def lower(self) -> ir.Value:
        packing, kernel = self.packing, ImplicitGemmKernel(self.packing)
        operands = [self._image(packing.image_by_quads), self._filters(packing, kernel.filter_kernel)]
        threads = WorkgroupThreads(packing.schedule.threads, packing.schedule.resident_threads)
        return self._finished(kernel, "direct", threads, operands, True, writes_channels_first=True)


@dataclass(frozen=True)
class StreamedLowering(ConvolutionLowering):
    """One kernel through whose warps the pixels of the image stream."""

    packing: StreamedPacking

    def lower(self) -> ir.Value:
        kernel, by_quads = StreamedKernel(self.packing), self.packing.output_by_quads
        return self._finished(kernel, "direct", self._threads, self._operands(kernel), by_quads)

    def _operands(self, kernel: StreamedKernel) -> list[Operand]:
        packing = self.packing
        return [self._image(packing.image_by_quads), self._filters(packing, kernel.filter_kernel)]

    @property
    def _threads(self) -> WorkgroupThreads:
        schedule = self.packing.schedule
        return WorkgroupThreads(schedule.threads, schedule.resident_threads, schedule.warp_threads)
