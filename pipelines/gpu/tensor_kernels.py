"""The kinds of kernels beside those of convolutions, a row each: what GPUs have none for, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import Any

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.elementwise import Elementwise, match_elementwise
from iree.winograd.passes.match.layouts.channel_slice import match_insert
from iree.winograd.passes.match.layouts.columns import ColumnMatrices
from iree.winograd.passes.match.layouts.places import Places
from iree.winograd.passes.match.layouts.rearrangement import match_rearrangement
from iree.winograd.passes.match.navigation import defining_operation, unreshaped
from iree.winograd.passes.match.no_match import Reason
from iree.winograd.passes.match.values.constants import is_known_at_load
from iree.winograd.passes.match.values.half_precision import half_type
from iree.winograd.pipelines.gpu.device.memory import OCTET, QUAD
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.gpu.kernels.attention.warpgroup_attention import (
    WarpgroupAttentionKernel,
)
from iree.winograd.pipelines.gpu.kernels.images.resampling import MOST_TAPS
from iree.winograd.pipelines.gpu.kernels.reductions.column_softmax import LONGEST_COLUMN
from iree.winograd.pipelines.gpu.kernels.reductions.rows import SharedRows
from iree.winograd.pipelines.gpu.kernels.reductions.shared_states import SUMMING_THREADS
from iree.winograd.pipelines.gpu.lowerings.attention import attention_kernel
from iree.winograd.pipelines.gpu.lowerings.elementwise import ElementwiseLowering, gates_misfit
from iree.winograd.pipelines.gpu.lowerings.gated import misfit_of_gated
from iree.winograd.pipelines.gpu.lowerings.group_norm import GroupNormLowering
from iree.winograd.pipelines.gpu.lowerings.in_place import holds_channels
from iree.winograd.pipelines.gpu.lowerings.interleaving import InterleavingLowering
from iree.winograd.pipelines.gpu.lowerings.pointwise_pair import misfit_of_pair
from iree.winograd.pipelines.gpu.lowerings.selection import computed_taps
from iree.winograd.pipelines.problems.tensor_operations import (
    BatchedAttention,
    BatchedProduct,
    ChannelsFirst,
    ChannelShuffle,
    ChannelsLast,
    ColumnSoftmax,
    CombinedMoments,
    ElementwiseFirst,
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

_LEAST_ELEMENTS = 1 << 14
"""Of images that IREE's code sums in about the time that a kernel takes to begin."""
_LONGEST_WINDOW = 16
"""Elements of a window along its last dimension, and along all others, that a thread adds."""
_LEAST_ROW = 16
_LEAST_SPREAD = 1 << 19
"""Elements of a result for which IREE's code loses more than dispatches take that compute what it spreads."""
_LEAST_COMPUTED = 1 << 20
"""The same where nothing computed is spread: IREE's code is as fast for what the GPU's caches hold."""
_EVEN = 128
"""What divides the elements that IREE's workgroups share by whole warps."""
_LEAST_SLOW = 1 << 17
"""The same where it doesn't, and where what is spread is in memory: IREE takes 5 to 20 us for 2^20."""
_LEAST_MOVES = 2
"""Copies that IREE's code makes of what is rearranged, for one of ours to pay whatever the size."""
_KERNELS = ("flow.dispatch", "hal.tensor.import", "winograd.")
_FUSED = ("linalg.", "tensor.extract_slice", "tensor.pad")
_LEAST_RESAMPLED_RANK = 3
_MOST_POSITIONS = 1 << 24
_MOST_SCATTERED = 16
"""Channels of a pixel that neighbours in a warp may write with channels first: eight pixels lie together."""
_TILED = 32
"""IREE's code multiplies matrices well whose sizes are all multiples of it."""
_LONGEST_REDUCTION = 1024
_LEAST_SIDE = 16
_LEAST_SUMMED = 64
"""Neighbours of a sum. Fewer are added by one of IREE's threads, as part of what is computed of the sum."""
_LEAST_PIXELS = 32
"""The same of others, of which IREE's code reads one after the other, or adds rows first in a dispatch."""
_MANY_SUMS = 1024
"""As many as fill a GPU with a workgroup of IREE's for each."""
_LONGEST_SUM = 4096
"""Elements that such a workgroup adds in about the time that a kernel takes to begin."""


def _misfit_of_sums(operation: Sums | PartialMoments | CombinedMoments | MomentFactors) -> Reason | None:
    extents = operation.sums.extents
    least = _LEAST_SUMMED if extents.kept == 1 else _LEAST_PIXELS
    if extents.sums * extents.summed < _LEAST_ELEMENTS or extents.summed < least:
        return f"IREE adds {extents.sums} times {extents.summed} elements as fast"
    if extents.kept == 1 and extents.summed <= _LONGEST_SUM and extents.sums >= _MANY_SUMS:
        return f"IREE adds {extents.sums} times {extents.summed} elements as fast"
    if extents.kept > 1 and extents.inner > SUMMING_THREADS:
        return f"a workgroup has not enough threads for groups of {extents.inner} channels"
    return None


def _misfit_of_factors(operation: MomentFactors) -> Reason | None:
    extents = operation.sums.extents
    elements = extents.sums * extents.summed
    if elements < _LEAST_SLOW or extents.kept * extents.inner % QUAD:
        return f"IREE computes what it normalizes of {elements} elements, and the factors with it"
    return _misfit_of_sums(operation)


def _misfit_of_group_norm(operation: GroupNormalization, target: GpuTarget) -> Reason | None:
    extents = operation.sums.extents
    elements = extents.sums * extents.summed
    if elements < _LEAST_ELEMENTS:
        return f"IREE normalizes {elements} elements as fast"
    lowering = GroupNormLowering.of(operation)
    if not lowering.elementwise.kernel.fits:
        return f"neighbours of {lowering.elementwise.result.type} don't read quads of all operands"
    if lowering.schedule(target) is None:
        return f"kernels for parts of {extents.summed} elements of a group take less time, or hold more"
    return None


def _misfit_of_maxima(operation: MaxPooling, target: GpuTarget) -> Reason | None:
    if operation.half is None and operation.windows.are_open:
        # IREE's code took an H200 four times as long as of known sizes.
        return None
    if operation.half is None:
        return "threads read all elements of their windows in place on GPUs"
    if not target.has_maxima:
        return f"the target has no maxima of pairs of {operation.half}"
    if operation.windows.channels % OCTET:
        return f"{operation.windows.channels} channels are no whole eights"
    return None


def _misfit_of_windows(operation: WindowSums) -> Reason | None:
    *rows, columns = operation.windows.size
    if columns > _LONGEST_WINDOW or prod(rows) > _LONGEST_WINDOW:
        return f"a thread would add {prod((*rows, columns))} elements"
    return None


def _misfit_of_selection(operation: PixelSelection) -> Reason | None:
    channels = ir.RankedTensorType(operation.image.type).shape[-1]
    if operation.makes_first and channels > _MOST_SCATTERED:
        return f"neighbouring threads would write {channels} channels far apart"
    if ir.RankedTensorType(operation.like.type).has_static_shape:
        return "what is selected of images of known sizes is resampled"
    if any(map(any, operation.is_weighted)) and computed_taps(operation) is None:
        return "IREE computes positions and weights in kernels of their own, which take longer than blending"
    return None


def _misfit_of_interleaving(operation: InterleavedChannels) -> Reason | None:
    kernel = InterleavingLowering.of(operation).kernel
    return None if kernel.fits else f"quads have no whole turns of {kernel.parts} parts"


def _misfit_of_rows(length: int) -> Reason | None:
    if length < _LEAST_ROW:
        return f"rows of {length} elements are few for a thread"
    return None if SharedRows(length).fits else f"registers hold no rows of {length} elements"


def _misfit_of_softmax(operation: RowSoftmax, target: GpuTarget) -> Reason | None:
    if operation.half is not None and not target.iree_code.converts_half:
        return "what else reads the rows takes them in f32"
    return _misfit_of_rows(operation.length)


def _misfit_of_columns(operation: ColumnSoftmax) -> Reason | None:
    columns = operation.columns
    matrices, type_ = columns.matrices, ir.RankedTensorType(columns.source.type)
    if not operation.leaves:
        return "columns are rows where images are channels last"
    if matrices.length > LONGEST_COLUMN:
        return f"registers hold no columns of {matrices.length} elements"
    dense = ColumnMatrices.dense(matrices.count, matrices.length, matrices.columns)
    if matrices != dense or not type_.has_static_shape or prod(type_.shape) != prod(columns.sizes):
        return "columns are part of a larger tensor, or of sizes that are known only at run time"
    return None


def _misfit_of_normalization(operation: RowNormalization, target: GpuTarget) -> Reason | None:
    length, read = operation.layer_norm.length, operation.rearrangement
    if operation.half is not None and not target.iree_code.converts_half:
        return "what else reads the rows takes them in f32"
    if read is not None and not read.places.keeps(SharedRows(length).width):
        return f"quads of {read.result.type} are no quads of {read.source.type}"
    return _misfit_of_rows(length)


def _misfit_of_rearranged(operation: Rearranged) -> Reason | None:
    found = operation.rearrangement
    if not ElementwiseLowering.of(operation).kernel.fits:
        return f"quads of {found.result.type} are no quads of {found.source.type}"
    if found.repeats:
        elements = found.places.elements
        return None if elements >= _LEAST_SLOW else f"IREE repeats {elements} elements as fast"
    if found.moves >= _LEAST_MOVES:
        return None
    if not found.moves and found.places.offset is not None:
        return "IREE copies it once, too"
    return _misfit_of_copy(found.places)


def _misfit_of_inserted(operation: InsertedPart, target: GpuTarget) -> Reason | None:
    places, whole = operation.places, ir.RankedTensorType(operation.insertion.operands[1].type)
    if not whole.has_static_shape:
        return _misfit_of_channels(operation, target)
    if places is None:
        return "its place is known only at run time"
    if str(whole.element_type) != "f32" and not target.iree_code.converts_half:
        return f"kernels copy no {whole.element_type} there"
    if places.offset is not None:
        return "it lies in one piece, which is copied as such"
    if not ElementwiseLowering.of(operation).kernel.fits:
        return f"quads of it are no quads of {whole}"
    return _misfit_of_copy(places)


def _misfit_of_channels(operation: InsertedPart, target: GpuTarget) -> Reason | None:
    """Of a tensor of sizes known only at run time."""
    if match_insert(operation.insertion) is None:
        return "its place is known only at run time"
    part = operation.insertion.operands[0]
    type_ = ir.RankedTensorType(part.type)
    is_half = target.iree_code.converts_half and half_type(part) is not None
    if type_.rank < _LEAST_RESAMPLED_RANK or not (is_half or isinstance(type_.element_type, ir.F32Type)):
        return f"kernels copy channels of images of f32, through CUDA of half precision, not of {type_}"
    return None


def _misfit_of_copy(places: Places) -> Reason | None:
    """Why IREE copies elements that lie apart."""
    return None if places.elements >= _LEAST_SLOW else f"IREE copies {places.elements} elements as fast"


def _misfit_of_resampling(operation: ResampledImage) -> Reason | None:
    resampling, type_ = operation.resampling, ir.RankedTensorType(operation.result.type)
    taps = {dimension: axis.taps for dimension, axis in resampling.axes.items()}
    if resampling.repeats_pixels and operation.destination is None:
        return "repeated pixels are another order of elements"
    if taps == {type_.rank - 1: 1} or type_.rank < _LEAST_RESAMPLED_RANK:
        return "IREE's code selects channels as fast"
    if prod(taps.values()) > MOST_TAPS:
        return f"a thread would add {prod(taps.values())} elements"
    if max(ir.RankedTensorType(resampling.source.type).shape) > _MOST_POSITIONS:
        return "positions are no whole numbers of f32"
    if prod(type_.shape) < _LEAST_SLOW and operation.half is None and _is_read_elementwise(operation.result):
        return "IREE computes it with the elementwise operation behind it"
    to = operation.destination
    if to is not None and not holds_channels(ir.RankedTensorType(to.whole.type), to.first, type_.shape[-1]):
        return "a thread's quads are no quads of the larger tensor"
    return None


def _is_read_elementwise(value: ir.Value) -> bool:
    """Whether something that reads it computes elements of elements."""
    return any(isinstance(match_elementwise(use.owner.operation), Elementwise) for use in value.uses)


def _misfit_of_product(operation: BatchedProduct) -> Reason | None:
    problem = operation.product.problem
    sizes = problem.rows, problem.columns, problem.reduction
    if not any(size % _TILED for size in sizes):
        return f"IREE's tiles of registers divide {sizes}"
    if problem.reduction > _LONGEST_REDUCTION:
        return f"a thread would add {problem.reduction} products"
    if min(problem.rows, problem.columns) < _LEAST_SIDE:
        return f"most threads would have none of {problem.rows} x {problem.columns} sums"
    return None


def _misfit_of_elementwise(operation: SpreadElementwise) -> Reason | None:
    type_ = ir.RankedTensorType(operation.elementwise.result.type)
    if not type_.has_static_shape:
        values = [each.value for each in operation.operands]
        if (before := next(filter(None, map(_fused_before, values)), None)) is not None:
            return f"IREE computes it with the {before.name} before it"
        return gates_misfit(operation)
    lowering = ElementwiseLowering.of(operation)
    read = list(zip(lowering.values, lowering.kernel.operands, strict=True))
    images = [value for value, operand in read if operand.dimensions is None]
    spread = [value for value, operand in read if operand.dimensions is not None]
    known = all(map(is_known_at_load, spread))
    if not _saves_copies(operation, lowering):
        elements = prod(type_.shape)
        if elements < _least_elements(elements, spread):
            return f"{elements} elements are too few for dispatches of their own"
        is_fused = known or elements < _LEAST_SPREAD
        if is_fused and (before := next(filter(None, map(_fused_before, images)), None)) is not None:
            return f"IREE computes it with the {before.name} before it"
    return None if lowering.kernel.fits else f"neighbours of {type_} don't read quads of all operands"


def _least_elements(elements: int, spread: Sequence[ir.Value]) -> int:
    """Of a result for a kernel to pay, over which these are spread. It has so many."""
    if not all(is_known_at_load(each) or _is_in_memory(each) for each in spread):
        return _LEAST_SPREAD
    return _LEAST_SLOW if spread or elements % _EVEN else _LEAST_COMPUTED


def _is_in_memory(value: ir.Value) -> bool:
    """Whether a kernel computes it, or it is an argument, or a part of one in a row."""
    found = match_rearrangement(value)
    if found is not None and found.places.offset is not None:
        value = found.source
    definition = defining_operation(unreshaped(value))
    return definition is None or definition.name.startswith(_KERNELS)


def _saves_copies(operation: SpreadElementwise, lowering: ElementwiseLowering) -> bool:
    """Whether the kernel reads in place what IREE would copy several times."""
    read = zip(operation.operands, lowering.kernel.operands, strict=True)
    moved = [match_rearrangement(each.value) for each, operand in read if operand.places is not None]
    return any(each is not None and each.moves >= _LEAST_MOVES for each in moved)


def _fused_before(value: ir.Value) -> ir.Operation | None:
    """What computes an image, or takes it from another, if IREE fuses it with what reads the image."""
    definition = defining_operation(unreshaped(value))
    return definition if definition is not None and definition.name.startswith(_FUSED) else None


def _misfit_of_attention(operation: BatchedAttention, target: GpuTarget) -> Reason | None:
    problem = operation.attention.problem
    kernel = attention_kernel(problem, target)
    if operation.attention.in_half and not isinstance(kernel, WarpgroupAttentionKernel):
        return "kernels of attention but those of warpgroups read and write f32"
    if kernel is not None:
        return None
    channels = max(problem.scores.reduction, problem.mixtures.columns)
    return f"a workgroup has not enough memory, or registers, for heads of {channels} channels"


def _misfit_of_transposition(operation: ChannelsLast | ChannelsFirst, target: GpuTarget) -> Reason | None:
    type_ = ir.RankedTensorType(operation.image.type)
    # Of 30720 pixels of three channels of f16 IREE's code took an H200 19 us, and 1.3 where that is known.
    is_slow = target.takes_ptx and not type_.has_static_shape
    if isinstance(type_.element_type, ir.F32Type) or is_slow:
        return None
    return f"IREE transposes images of {type_.element_type} on GPUs"


def _misfit_of_channels_first(operation: ChannelsFirst, target: GpuTarget) -> Reason | None:
    type_ = ir.RankedTensorType(operation.image.type)
    if type_.has_static_shape or operation.is_computed:
        return "IREE makes channels of results first that it computes, or of known sizes, on GPUs"
    # Of a level of a feature pyramid of 7680 pixels IREE's code took an H200 6 us, and 2 where that is known.
    return _misfit_of_transposition(operation, target)


def _misfit_of_row_sums(operation: RowSums) -> Reason | None:
    element = ir.RankedTensorType(operation.image.type).element_type
    if isinstance(element, ir.F32Type) or half_type(operation.image) is not None:
        return None
    return f"images of unknown sizes that are summed are of f32 or half precision, not of {element}"


_Misfit = Callable[[Any, GpuTarget], Reason | None]


def _on_all_targets(misfit: Callable[[Any], Reason | None]) -> _Misfit:
    return lambda operation, _: misfit(operation)


_MISFITS: Mapping[type, _Misfit] = MappingProxyType(
    {
        ChannelsLast: _misfit_of_transposition,
        ChannelsFirst: _misfit_of_channels_first,
        ChannelShuffle: lambda *_: "groups of channels are parts that are interleaved on GPUs",
        InterleavedChannels: _on_all_targets(_misfit_of_interleaving),
        MaxPooling: _misfit_of_maxima,
        WindowSums: _on_all_targets(_misfit_of_windows),
        PixelSelection: _on_all_targets(_misfit_of_selection),
        RowSums: _on_all_targets(_misfit_of_row_sums),
        RowSoftmax: _misfit_of_softmax,
        ColumnSoftmax: _on_all_targets(_misfit_of_columns),
        RowNormalization: _misfit_of_normalization,
        Rearranged: _on_all_targets(_misfit_of_rearranged),
        InsertedPart: _misfit_of_inserted,
        ResampledImage: _on_all_targets(_misfit_of_resampling),
        BatchedProduct: _on_all_targets(_misfit_of_product),
        BatchedAttention: _misfit_of_attention,
        **dict.fromkeys((Sums, PartialMoments, CombinedMoments), _on_all_targets(_misfit_of_sums)),
        MomentFactors: _on_all_targets(_misfit_of_factors),
        GroupNormalization: _misfit_of_group_norm,
        GatedProduct: _on_all_targets(misfit_of_gated),
        PointwisePair: misfit_of_pair,
        SpreadElementwise: _on_all_targets(_misfit_of_elementwise),
        ElementwiseFirst: lambda *_: "IREE makes channels of results first that it computes on GPUs",
    }
)


def misfit(operation: TensorOperation, target: GpuTarget) -> Reason | None:
    """Why IREE computes the operation for a target; None where a kernel is to."""
    return _MISFITS[type(operation)](operation, target)
