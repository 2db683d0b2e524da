"""Parts of tensors, and tensors of parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from iree.winograd.dialect.bindings import arith, ir, tensor
from iree.winograd.passes.build.tensors import index_constant, shape_of
from iree.winograd.passes.match.layouts.channel_slice import ChannelSlice
from iree.winograd.passes.match.navigation import defining_operation
from iree.winograd.passes.match.slices import match_slice

_SLICE = "tensor.extract_slice"

Size: TypeAlias = "int | ir.Value"
"""A number, or an `index` where it is known only at run time."""


def extracted(
    value: ir.Value, offsets: Sequence[int], sizes: Sequence[Size], strides: Sequence[int] | None = None
) -> ir.Value:
    """Build the tensor of the elements `offsets + strides * i` of `value` for i below `sizes`."""
    static, dynamic = _divided(sizes)
    type_ = ir.RankedTensorType.get(static, value.type.element_type)
    strides = [1] * len(static) if strides is None else list(strides)
    return tensor.extract_slice(type_, value, [], dynamic, [], list(offsets), static, strides)


def element_of(image: ir.Value, indices: Sequence[ir.Value]) -> ir.Value:
    """Build the element of `image` at `indices`, one for each dimension, from what it is a slice of.

    IREE 3.13's code for NVIDIA's GPUs reads elements of a slice as if its rows were neighbours.
    """
    definition = defining_operation(image)
    slice_ = None if definition is None or definition.name != _SLICE else match_slice(definition)
    if definition is None or slice_ is None or definition.operands[0].type.rank != len(indices):
        return tensor.extract(image, list(indices))
    places = []
    for index, offset, stride in zip(indices, slice_.offsets, slice_.strides, strict=True):
        place = index if stride == 1 else arith.muli(index, index_constant(stride))
        places.append(arith.addi(place, index_constant(offset)) if offset else place)
    return element_of(definition.operands[0], places)


def inserted(
    part: ir.Value,
    whole: ir.Value,
    offsets: Sequence[int],
    sizes: Sequence[Size],
    strides: Sequence[int] | None = None,
) -> ir.Value:
    """Build `whole` with the elements of `part`, of `sizes`, at `offsets + strides * i`."""
    static, dynamic = _divided(sizes)
    strides = [1] * len(static) if strides is None else list(strides)
    return tensor.insert_slice(part, whole, [], dynamic, [], list(offsets), static, strides)


def padded(
    value: ir.Value, shape: Sequence[int], low: Sequence[int], high: Sequence[int], element: ir.Value
) -> ir.Value:
    """Build the tensor of `shape`, a dynamic batch as in a type, that is `value` with `element` around it."""
    type_ = ir.RankedTensorType.get(list(shape), value.type.element_type)
    pad = tensor.PadOp(type_, value, [], [], list(low), list(high))
    index_types = [ir.IndexType.get()] * len(shape)
    body = pad.regions[0].blocks.append(*index_types, arg_locs=[ir.Location.current] * len(shape))
    with ir.InsertionPoint(body):
        tensor.yield_(element)
    return pad.results[0]


def insert_channels(part: ir.Value, destination: ChannelSlice) -> ir.Value:
    """Build the insertion of all of `part` into its channels of the destination, both of static numbers."""
    sizes = _sizes_of_channels(destination, part.type.shape[-1])
    return inserted(part, destination.whole, [0] * (len(sizes) - 1) + [destination.first], sizes)


def extract_channels(source: ChannelSlice, channels: int) -> ir.Value:
    """Build the tensor of so many of the source's channels."""
    sizes = _sizes_of_channels(source, channels)
    return extracted(source.whole, [0] * (len(sizes) - 1) + [source.first], sizes)


def _sizes_of_channels(slice_: ChannelSlice, channels: int) -> list[Size]:
    return [*shape_of(slice_.whole)[:-1], channels]


def _divided(sizes: Sequence[Size]) -> tuple[list[int], list[ir.Value]]:
    """`sizes` as in a type, and those that are known only at run time."""
    static = [size if isinstance(size, int) else ir.ShapedType.get_dynamic_size() for size in sizes]
    return static, [size for size in sizes if not isinstance(size, int)]
