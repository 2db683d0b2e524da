"""Channels read from and written to larger tensors."""

from __future__ import annotations

from collections.abc import Sequence

from iree.winograd.dialect.bindings import ir, tensor
from iree.winograd.passes.match.channel_slice import ChannelSlice


def insert_channels(source: ir.Value, destination: ChannelSlice) -> ir.Value:
    """Build the insertion of all of `source` into its channels of the destination, both of static shape."""
    sizes = list(ir.RankedTensorType(source.type).shape)
    offsets = [0] * (len(sizes) - 1) + [destination.first]
    insertion = tensor.InsertSliceOp(source, destination.whole, [], [], [], offsets, sizes, [1] * len(sizes))
    return insertion.results[0]


def extract_channels(source: ChannelSlice, shape: Sequence[int]) -> ir.Value:
    """Build the tensor of a static shape that is a slice of the source's channels."""
    type_ = ir.RankedTensorType.get(list(shape), source.whole.type.element_type)
    offsets = [0] * (len(shape) - 1) + [source.first]
    ones = [1] * len(shape)
    return tensor.ExtractSliceOp(type_, source.whole, [], [], [], offsets, list(shape), ones).result
