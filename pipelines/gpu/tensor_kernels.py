"""The kinds of kernels beside those of convolutions, a row each: what GPUs have none for, and why."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from iree.winograd.passes.match.no_match import Reason
from iree.winograd.pipelines.problems.tensor_operations import (
    BatchedProduct,
    ChannelShuffle,
    ChannelsLast,
    ColumnSoftmax,
    MaxPooling,
    RowNormalization,
    RowSoftmax,
    TensorOperation,
)

_MISFITS: Mapping[type, Reason | None] = MappingProxyType(
    {
        ChannelsLast: None,
        ChannelShuffle: "IREE shuffles channels as fast on GPUs",
        MaxPooling: "threads read all elements of their windows in place on GPUs",
        RowSoftmax: "there is no kernel for softmax on GPUs",
        ColumnSoftmax: "there is no kernel for softmax on GPUs",
        RowNormalization: "there is no kernel for layer normalization on GPUs",
        BatchedProduct: "there is no kernel for it on GPUs",
    }
)


def misfit(operation: TensorOperation) -> Reason | None:
    """Why IREE computes the operation; None where a kernel is to."""
    return _MISFITS[type(operation)]
