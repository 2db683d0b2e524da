"""The kinds of kernels beside those of convolutions, a row each: what it suits, and its kernel.

Kernels are imported when they are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.attention_mask import as_added
from iree.winograd.passes.build.tensors import size_of
from iree.winograd.passes.match.channel_scale import is_channel_scale
from iree.winograd.passes.match.conversions import widened_source
from iree.winograd.passes.match.epilogue_operand import EpilogueOperand
from iree.winograd.passes.match.half_precision import half_type
from iree.winograd.passes.match.image_sum import ImageSum
from iree.winograd.passes.match.navigation import defining_operation
from iree.winograd.passes.match.no_match import Reason
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.passes.rewrite.merged_elementwise import build_together
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.processor.transposition import EXCHANGED_HALVES, MAX_INTERLEAVED_CHANNELS
from iree.winograd.pipelines.emission.convolution_signature import image_tensor, read_tensor
from iree.winograd.pipelines.emission.element_function import VectorFunction
from iree.winograd.pipelines.emission.numbers.f32 import F32
from iree.winograd.pipelines.emission.signature import DispatchSignature, DispatchTensor, stated_batch
from iree.winograd.pipelines.emission.work import Size
from iree.winograd.pipelines.problems.tensor_operations import (
    BatchedAttention,
    BatchedProduct,
    ChannelsFirst,
    ChannelShuffle,
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
from iree.winograd.pipelines.problems.windows import MOST_WRITTEN_OUT

if TYPE_CHECKING:
    from iree.winograd.pipelines.cpu.kernels.attention import AttentionKernel
    from iree.winograd.pipelines.cpu.kernels.batch_matmul import BatchMatmulKernel
    from iree.winograd.pipelines.cpu.kernels.column_softmax import ColumnSoftmaxKernel
    from iree.winograd.pipelines.cpu.kernels.elementwise import ElementwiseKernel
    from iree.winograd.pipelines.cpu.kernels.group_moments import GroupFactorsKernel, GroupMomentsKernel
    from iree.winograd.pipelines.cpu.kernels.image_transposition import ImageTransposition
    from iree.winograd.pipelines.cpu.kernels.layer_norm import LayerNormKernel
    from iree.winograd.pipelines.cpu.kernels.pooling import PoolingKernel
    from iree.winograd.pipelines.cpu.kernels.row_sums import RowSumsKernel
    from iree.winograd.pipelines.cpu.kernels.selection import SelectionKernel
    from iree.winograd.pipelines.cpu.kernels.softmax import SoftmaxKernel
    from iree.winograd.pipelines.cpu.kernels.window_sums import WindowSumsKernel

    TensorKernel: TypeAlias = (
        AttentionKernel
        | BatchMatmulKernel
        | ColumnSoftmaxKernel
        | ElementwiseKernel
        | GroupFactorsKernel
        | GroupMomentsKernel
        | ImageTransposition
        | LayerNormKernel
        | PoolingKernel
        | RowSumsKernel
        | SelectionKernel
        | SoftmaxKernel
        | WindowSumsKernel
    )

_SCORES_IN_CACHE = 4
"""L2s that scores of attention exceed where one kernel computes them, softmax and products with values.
Masked ones it computes anyway."""
_LEAST_ROW = 16
"""Shorter rows don't fill a vector of every target."""


@dataclass(frozen=True)
class TensorDispatch:
    """A kernel with the tensors that it reads and the sizes of the one that it makes.

    The first size is that of the first operand, which may be dynamic.
    """

    kernel: TensorKernel
    operands: tuple[ir.Value, ...]
    sizes: tuple[int, ...]
    """As in a type."""
    batch: int | None = None
    """What the kernel has for the size of the batch, where it isn't the first size."""
    touching: PoolingKernel | None = None
    """The kernel, where it says which pixels its workgroups touch."""
    extents: Mapping[Size, int | ir.Value] = field(default_factory=dict)
    """What the kernel is told beside the batch."""
    dynamic: tuple[tuple[Size, ...], ...] | None = None
    """Which of these the dynamic sizes of the operands and of the result are; by default the batch."""
    element: str | None = None
    """The type of what it makes, by default that of the first operand."""

    @property
    def signature(self) -> DispatchSignature:
        """Of the dispatch."""
        type_ = ir.RankedTensorType(self.operands[0].type)
        element = type_.element_type if self.element is None else ir.Type.parse(self.element)
        result = ir.RankedTensorType.get(list(self.sizes), element)
        batch = None if type_.is_dynamic_dim(0) else self.batch or self.sizes[0]
        extents = ((size, each if isinstance(each, int) else None) for size, each in self.extents.items())
        stated = (*stated_batch(batch), *extents)
        if self.dynamic is None:
            return DispatchSignature.of(self.operands, result, stated)
        types = [*(ir.RankedTensorType(each.type) for each in self.operands), result]
        *operands, made = map(DispatchTensor, types, self.dynamic)
        return DispatchSignature(tuple(operands), made, stated)


@dataclass(frozen=True)
class _Kind:
    dispatch: Callable[[Any, CpuTarget], TensorDispatch]
    misfit: Callable[[Any, CpuTarget], Reason | None] = lambda operation, target: None


def misfit(operation: TensorOperation, target: CpuTarget) -> Reason | None:
    """Why IREE computes the operation; None where a kernel is to."""
    if type(operation) in _LEFT:
        return _LEFT[type(operation)]
    return _KINDS[type(operation)].misfit(operation, target)


def dispatch_of(operation: TensorOperation, target: CpuTarget) -> TensorDispatch:
    """What computes an operation that there is no misfit for."""
    return _KINDS[type(operation)].dispatch(operation, target)


def _channels_last(operation: ChannelsLast | ChannelShuffle, target: CpuTarget) -> TensorDispatch:
    batch, channels, *size = operation.image.type.shape
    return _transposed(operation.image, (batch, *size, channels), target, makes_first=False)


def _channels_first(operation: ChannelsFirst, target: CpuTarget) -> TensorDispatch:
    batch, *size, channels = operation.image.type.shape
    return _transposed(operation.image, (batch, channels, *size), target, makes_first=True)


def _transposed(
    image: ir.Value, sizes: tuple[int, ...], target: CpuTarget, *, makes_first: bool
) -> TensorDispatch:
    from iree.winograd.pipelines.cpu.kernels.image_transposition import ImageTransposition

    type_ = ir.RankedTensorType(image.type)
    kernel = ImageTransposition.of(type_, target, makes_first=makes_first)
    if kernel.pixels is not None:
        return TensorDispatch(kernel, (image,), sizes)
    first = 1 if makes_first else 2
    extents = {
        Size("input", dimension): size_of(image, first + dimension) for dimension in range(type_.rank - 2)
    }
    dynamic = image_tensor(type_, "input", channels_first=not makes_first).dynamic
    return TensorDispatch(kernel, (image,), sizes, extents=extents, dynamic=(dynamic, dynamic))


def _misfit_of_first(operation: ChannelsFirst, target: CpuTarget) -> Reason | None:
    _, *size, channels = operation.image.type.shape
    half = half_type(operation.image)
    if any(map(is_dynamic, size)) or (half is not None and channels >= EXCHANGED_HALVES):
        return None
    return f"IREE makes {channels} channels of {half or 'f32'} first as fast in images of known size"


def _misfit_of_shuffle(operation: ChannelShuffle, target: CpuTarget) -> Reason | None:
    _, groups, channels = operation.image.type.shape
    if groups > MAX_INTERLEAVED_CHANNELS:
        return f"IREE shuffles {groups} groups of channels as fast"
    if channels < target.vector_width:
        return f"groups of {channels} channels fill no vector"
    return None


def _max_pooling(operation: MaxPooling, target: CpuTarget) -> TensorDispatch:
    from iree.winograd.pipelines.cpu.kernels.pooling import PoolingKernel

    kernel = PoolingKernel(operation.windows, target)
    return replace(_of_windows(operation, kernel), touching=kernel)


def _window_sums(operation: WindowSums, target: CpuTarget) -> TensorDispatch:
    from iree.winograd.pipelines.cpu.kernels.window_sums import WindowSumsKernel

    finish = tuple(VectorFunction.of(each.regions[0].blocks[0]) for each in operation.finishing.operations)
    return _of_windows(operation, WindowSumsKernel(operation.windows, target, finish))


def _of_windows(operation: MaxPooling | WindowSums, kernel: TensorKernel) -> TensorDispatch:
    extents, (read, written) = _image_sizes(operation.image, operation.like)
    sizes = _shape_like(operation.image, operation.like)
    return TensorDispatch(kernel, (operation.image,), sizes, extents=extents, dynamic=(read, written))


def _misfit_of_maxima(operation: MaxPooling, target: CpuTarget) -> Reason | None:
    one = len(operation.windows.size) == 1
    return "a row of windows is for one workgroup, and an image of one dimension one row" if one else None


def _misfit_of_windows(operation: WindowSums, target: CpuTarget) -> Reason | None:
    windows = operation.windows
    if None not in (*windows.extents, *windows.outputs):
        return "IREE's loops over windows of known sizes are vectors of channels on CPUs"
    if prod(windows.size) > MOST_WRITTEN_OUT:
        return f"windows of {prod(windows.size)} elements aren't written out"
    return None


def _pixel_selection(operation: PixelSelection, target: CpuTarget) -> TensorDispatch:
    from iree.winograd.pipelines.cpu.kernels.selection import SelectionKernel
    from iree.winograd.pipelines.emission.selection import Selection

    image, like, destination = operation.image, operation.like, operation.destination
    rounded = None if operation.rounded is None else str(operation.rounded)
    selection = Selection(operation.is_weighted, image.type.shape[-1], rounded)
    first = 0 if destination is None else destination.first
    kernel = SelectionKernel(selection, target, first, operation.makes_first)
    sizes = _shape_like(image, like if destination is None else destination.whole)
    if operation.makes_first:
        batch, *size, channels = sizes
        sizes = (batch, channels, *size)
    extents, (read, written) = _image_sizes(image, like)
    # IREE would compute each in a dispatch.
    tables = [
        (dimension, table)
        for dimension, taps in enumerate(operation.taps)
        for table in build_together([each for tap in taps for each in tap.tables])
    ]
    of_tables = [(Size("output", d),) if table.type.is_dynamic_dim(0) else () for d, table in tables]
    return TensorDispatch(
        kernel,
        (image, *(table for _, table in tables)),
        sizes,
        extents=extents,
        dynamic=(read, *of_tables, written),
        element=None if operation.half is None else str(operation.half),
    )


def _misfit_of_row_sums(operation: RowSums, target: CpuTarget) -> Reason | None:
    if operation.dimensions > 1:
        return "sums over several dimensions are sums of sums on CPUs"
    return "IREE divides sums where it reads them on CPUs" if operation.divisors else None


def _row_sums(operation: RowSums, target: CpuTarget) -> TensorDispatch:
    from iree.winograd.pipelines.cpu.kernels.row_sums import RowSumsKernel

    image, type_ = operation.image, ir.RankedTensorType(operation.image.type)
    batch, *size, channels = type_.shape
    kernel = RowSumsKernel(len(size), channels, target)
    extents = {Size("input", dimension): size_of(image, 1 + dimension) for dimension in range(len(size))}
    read = image_tensor(type_, "input", channels_first=False).dynamic
    written = tuple(each for each in read if each != Size("input", len(size) - 1))
    sizes = (batch, *size[:-1], channels)
    return TensorDispatch(kernel, (image,), sizes, extents=extents, dynamic=(read, written), element=F32.name)


def _moments_of(sums: ImageSum, target: CpuTarget) -> GroupMomentsKernel:
    from iree.winograd.pipelines.cpu.kernels.group_moments import GroupMomentsKernel

    return GroupMomentsKernel(sums.extents, target)


def _partial_moments(operation: PartialMoments, target: CpuTarget) -> TensorDispatch:
    kernel = _moments_of(operation.sums, target)
    return TensorDispatch(kernel, (operation.sums.source,), kernel.sizes, batch=1, element=F32.name)


def _misfit_of_moments(operation: PartialMoments | MomentFactors, target: CpuTarget) -> Reason | None:
    from iree.winograd.pipelines.cpu.kernels.group_moments import moments_misfit

    return moments_misfit(operation.sums.extents, target)


def _moment_factors(operation: MomentFactors, target: CpuTarget) -> TensorDispatch:
    from iree.winograd.pipelines.cpu.kernels.group_moments import GroupFactorsKernel

    finish = tuple(VectorFunction.of(each.regions[0].blocks[0]) for each in operation.sums.finishing)
    kernel = GroupFactorsKernel(_moments_of(operation.sums, target), finish, target)
    operands = (operation.partial, operation.weight, operation.bias)
    return TensorDispatch(kernel, operands, kernel.sizes, batch=1)


def _image_sizes(
    image: ir.Value, like: ir.Value
) -> tuple[dict[Size, int | ir.Value], list[tuple[Size, ...]]]:
    """The sizes of an image and of what is made of it, and which of them are open, of both."""
    tensors = (("input", image), ("output", like))
    extents = {
        Size(of, dimension): size_of(value, 1 + dimension)
        for of, value in tensors
        for dimension in range(image.type.rank - 2)
    }
    return extents, [image_tensor(value.type, of, channels_first=False).dynamic for of, value in tensors]


def _shape_like(image: ir.Value, like: ir.Value) -> tuple[int, ...]:
    """As in a type, that of as many images as `image` has."""
    return (image.type.shape[0], *like.type.shape[1:])


def _elementwise(operation: SpreadElementwise, target: CpuTarget) -> TensorDispatch:
    from iree.winograd.pipelines.cpu.kernels.elementwise import ElementwiseKernel, SpreadOperand

    # The first operand is one that has all sizes.
    places = sorted(range(len(operation.operands)), key=lambda each: not _is_whole(operation, each))
    operands = [operation.operands[each] for each in places]
    spread = tuple(
        SpreadOperand(place, each.indexing_map) for place, each in zip(places, operands, strict=True)
    )
    result = operation.elementwise.result
    *sizes, channels = ir.RankedTensorType(result.type).shape
    function = VectorFunction.of(operation.elementwise.body)
    known = tuple(None if is_dynamic(each) else each for each in sizes[1:])
    kernel = ElementwiseKernel(known, channels, spread, function, target)
    values = tuple(map(_read_value, operands))
    whole = values[0]
    extents = {Size("output", dimension): size_of(whole, 1 + dimension) for dimension in range(len(known))}
    read = tuple(
        read_tensor(value.type, each.indexing_map).dynamic
        for value, each in zip(values, operands, strict=True)
    )
    written = image_tensor(result.type, "output", channels_first=False).dynamic
    element = str(ir.RankedTensorType(result.type).element_type)
    return TensorDispatch(
        kernel, values, (*sizes, channels), extents=extents, dynamic=(*read, written), element=element
    )


def _misfit_of_elementwise(operation: SpreadElementwise, target: CpuTarget) -> Reason | None:
    type_ = ir.RankedTensorType(operation.elementwise.result.type)
    *sizes, channels = type_.shape
    if is_dynamic(channels):
        return "IREE computes elementwise as fast as memory what has channels first"
    if not any(map(is_dynamic, sizes[1:])) and not _stores_half(operation, target):
        return "IREE computes elementwise as fast as memory what has known sizes"
    if not any(_is_whole(operation, each) for each in range(len(operation.operands))):
        return f"no operand has all sizes of {type_}"
    for each in operation.operands:
        definition = defining_operation(_read_value(each))
        if definition is not None and definition.name.startswith("linalg."):
            return f"IREE computes it with the {definition.name} before it"
    return None


def _read_value(operand: EpilogueOperand) -> ir.Value:
    """What is read from memory: an operand before it was widened, which loads do."""
    return widened_source(operand.value) or operand.value


def _stores_half(operation: SpreadElementwise, target: CpuTarget) -> bool:
    """Whether functions are computed, or channels scaled, whose results are stored in half precision."""
    if half_type(operation.elementwise.result) is None or not target.stores_half:
        return False
    channels = ir.RankedTensorType(operation.elementwise.result.type).shape[-1]
    if channels % target.vector_width:
        return False
    names = [view.operation.name for view in operation.elementwise.body.operations]
    return is_channel_scale(operation.elementwise.operation) or any(
        name.startswith("math.") for name in names
    )


def _is_whole(operation: SpreadElementwise, place: int) -> bool:
    """Whether an operand has an element for each one of the result, in the same order."""
    rank = ir.RankedTensorType(operation.elementwise.result.type).rank
    return bool(operation.operands[place].indexing_map == ir.AffineMap.get_identity(rank))


def _row_softmax(operation: RowSoftmax, target: CpuTarget) -> TensorDispatch:
    from iree.winograd.pipelines.cpu.kernels.softmax import SoftmaxKernel

    shape = tuple(operation.rows.type.shape)
    kernel = SoftmaxKernel(prod(shape[1:]) // operation.length, operation.length, target, operation.safe)
    return TensorDispatch(kernel, (operation.rows,), shape)


def _misfit_of_rows(length: int) -> Reason | None:
    return f"rows of {length} elements fill no vector" if length < _LEAST_ROW else None


def _column_softmax(operation: ColumnSoftmax, target: CpuTarget) -> TensorDispatch:
    from iree.winograd.pipelines.cpu.kernels.column_softmax import ColumnSoftmaxKernel

    columns = operation.columns
    kernel = ColumnSoftmaxKernel(columns.matrices, target, operation.safe)
    return TensorDispatch(kernel, (columns.source,), tuple(columns.sizes), batch=1)


def _row_normalization(operation: RowNormalization, target: CpuTarget) -> TensorDispatch:
    from iree.winograd.pipelines.cpu.kernels.layer_norm import LayerNormKernel

    found = operation.layer_norm
    shape = tuple(found.source.type.shape)
    kernel = LayerNormKernel(
        prod(shape[1:-1]),
        found.length,
        found.epsilon,
        found.scale is not None,
        found.shift is not None,
        target,
    )
    parameters = (each for each in (found.scale, found.shift) if each is not None)
    return TensorDispatch(kernel, (found.source, *parameters), shape)


def _batched_product(operation: BatchedProduct, target: CpuTarget) -> TensorDispatch:
    from iree.winograd.pipelines.cpu.kernels.batch_matmul import BatchMatmulKernel

    product = operation.product
    kernel = BatchMatmulKernel(product.problem, target, operation.threads)
    return TensorDispatch(kernel, (product.left, product.right), tuple(product.result.type.shape), batch=1)


def _misfit_of_normalization(operation: RowNormalization, target: CpuTarget) -> Reason | None:
    if operation.rearrangement is not None:
        return "rows are read in the order of memory on CPUs"
    if operation.half is not None:
        return "rows are stored in f32 on CPUs"
    return _misfit_of_rows(operation.layer_norm.length)


def _misfit_of_product(operation: BatchedProduct, target: CpuTarget) -> Reason | None:
    from iree.winograd.pipelines.cpu.kernels.batch_matmul import BatchMatmulKernel

    problem = operation.product.problem
    if BatchMatmulKernel(problem, target, 1).fits:
        return None
    return f"its panels of {problem.reduction} rows exceed the memory of a workgroup"


def _batched_attention(operation: BatchedAttention, target: CpuTarget) -> TensorDispatch:
    from iree.winograd.pipelines.cpu.kernels.attention import AttentionKernel

    found = operation.attention
    kernel = AttentionKernel(found.problem, target, operation.threads)
    masks = (
        as_added(mask) if rows.is_truth else mask
        for mask, rows in zip(found.masks, found.problem.masks, strict=True)
    )
    operands = (found.queries, found.keys, found.values, *masks)
    return TensorDispatch(kernel, operands, tuple(found.result.type.shape), batch=1)


def _misfit_of_attention(operation: BatchedAttention, target: CpuTarget) -> Reason | None:
    from iree.winograd.pipelines.cpu.kernels.attention import AttentionKernel

    if operation.attention.in_half:
        return "kernels of attention read and write f32"
    problem = operation.attention.problem
    scores = problem.scores
    score_bytes = F32.bytes * scores.batch * scores.rows * scores.columns
    if not problem.masks and score_bytes < _SCORES_IN_CACHE * target.l2_bytes:
        return "its scores stay in L2 between kernels"
    if not AttentionKernel(problem, target, operation.threads).fits:
        return f"keys of {scores.reduction} channels exceed the memory of a workgroup"
    return _misfit_of_rows(scores.columns)


_LEFT: Mapping[type, Reason] = MappingProxyType(
    {
        InterleavedChannels: "concatenations are in memory where channels are shuffled on CPUs",
        GatedProduct: "elementwise operations on tokens take little of the time on CPUs",
        Rearranged: "IREE copies what is rearranged on CPUs",
        InsertedPart: "IREE copies what is inserted on CPUs",
        ResampledImage: "IREE's loops over tables are vectors of channels on CPUs",
        **dict.fromkeys(
            (Sums, CombinedMoments, GroupNormalization),
            "IREE's loops over pixels are vectors of channels on CPUs",
        ),
    }
)
"""Operations that there are no kernels for, and why."""
_KINDS: Mapping[type, _Kind] = MappingProxyType(
    {
        ChannelsLast: _Kind(_channels_last),
        ChannelsFirst: _Kind(_channels_first, _misfit_of_first),
        ChannelShuffle: _Kind(_channels_last, _misfit_of_shuffle),
        MaxPooling: _Kind(_max_pooling, _misfit_of_maxima),
        MomentFactors: _Kind(_moment_factors, _misfit_of_moments),
        PartialMoments: _Kind(_partial_moments, _misfit_of_moments),
        PixelSelection: _Kind(_pixel_selection),
        RowSums: _Kind(_row_sums, _misfit_of_row_sums),
        WindowSums: _Kind(_window_sums, _misfit_of_windows),
        SpreadElementwise: _Kind(_elementwise, _misfit_of_elementwise),
        RowSoftmax: _Kind(_row_softmax, lambda each, target: _misfit_of_rows(each.length)),
        ColumnSoftmax: _Kind(_column_softmax),
        RowNormalization: _Kind(_row_normalization, _misfit_of_normalization),
        BatchedProduct: _Kind(_batched_product, _misfit_of_product),
        BatchedAttention: _Kind(_batched_attention, _misfit_of_attention),
    }
)
