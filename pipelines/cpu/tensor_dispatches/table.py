"""The kinds of kernels beside those of convolutions, a row each: what it suits, and its kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from iree.winograd.passes.match.no_match import Reason
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
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

from .dispatch import TensorDispatch
from .elementwise import (
    elementwise,
    elementwise_first,
    misfit_of_elementwise,
    misfit_of_elementwise_first,
)
from .moments import misfit_of_moments, moment_factors, partial_moments
from .pixels import misfit_of_row_sums, pixel_selection, row_sums
from .products import batched_attention, batched_product, misfit_of_attention, misfit_of_product
from .rows import column_softmax, misfit_of_normalization, misfit_of_rows, row_normalization, row_softmax
from .transpositions import channels_first, channels_last, misfit_of_first, misfit_of_shuffle
from .windows import max_pooling, misfit_of_maxima, misfit_of_windows, window_sums


@dataclass(frozen=True)
class _Kind:
    dispatch: Callable[[Any, CpuTarget], TensorDispatch]
    misfit: Callable[[Any, CpuTarget], Reason | None] = lambda operation, target: None


_LEFT: Mapping[type, Reason] = MappingProxyType(
    {
        InterleavedChannels: "concatenations are in memory where channels are shuffled on CPUs",
        GatedProduct: "elementwise operations on tokens take little of the time on CPUs",
        PointwisePair: "two layers are one kernel on GPUs alone",
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
        ChannelsLast: _Kind(channels_last),
        ChannelsFirst: _Kind(channels_first, misfit_of_first),
        ChannelShuffle: _Kind(channels_last, misfit_of_shuffle),
        MaxPooling: _Kind(max_pooling, misfit_of_maxima),
        MomentFactors: _Kind(moment_factors, misfit_of_moments),
        PartialMoments: _Kind(partial_moments, misfit_of_moments),
        PixelSelection: _Kind(pixel_selection),
        RowSums: _Kind(row_sums, misfit_of_row_sums),
        WindowSums: _Kind(window_sums, misfit_of_windows),
        SpreadElementwise: _Kind(elementwise, misfit_of_elementwise),
        ElementwiseFirst: _Kind(elementwise_first, misfit_of_elementwise_first),
        RowSoftmax: _Kind(row_softmax, lambda each, target: misfit_of_rows(each.length)),
        ColumnSoftmax: _Kind(column_softmax),
        RowNormalization: _Kind(row_normalization, misfit_of_normalization),
        BatchedProduct: _Kind(batched_product, misfit_of_product),
        BatchedAttention: _Kind(batched_attention, misfit_of_attention),
    }
)


def misfit(operation: TensorOperation, target: CpuTarget) -> Reason | None:
    """Why IREE computes the operation; None where a kernel is to."""
    if type(operation) in _LEFT:
        return _LEFT[type(operation)]
    return _KINDS[type(operation)].misfit(operation, target)


def dispatch_of(operation: TensorOperation, target: CpuTarget) -> TensorDispatch:
    """What computes an operation that there is no misfit for."""
    return _KINDS[type(operation)].dispatch(operation, target)
