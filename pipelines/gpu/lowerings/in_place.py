"""Which channels of larger tensors kernels read and write where they lie."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.convolutions.element_types import element_bytes
from iree.winograd.passes.match.layouts.channel_slice import ChannelSlice, match_insert
from iree.winograd.passes.match.slices import match_slice
from iree.winograd.pipelines.gpu.device.memory import QUAD, QUAD_BYTES
from iree.winograd.pipelines.problems.group import ConvolutionGroup


def holds_channels(whole: ir.RankedTensorType, first: int, channels: int) -> bool:
    """Whether kernels read and write so many channels of a tensor, from `first` on, in place.

    They do unless they load and store elements singly where all loads and stores of a thread, of up to 16
    bytes, are aligned.
    """
    aligned = QUAD_BYTES // element_bytes(str(whole.element_type))
    return channels % QUAD > 0 or whole.shape[-1] % aligned == first % aligned == 0


def insertion_of(group: ConvolutionGroup) -> ir.Operation | None:
    """What inserts a convolution's outputs, where kernels write them in their place.

    That is between others of a tensor, as some of its channels, or both.
    """
    channels = group.shape.output_channels
    if (interleaving := group.interleaving) is not None:
        part, whole = (
            match_slice(interleaving, of_any_size=True),
            ir.RankedTensorType(interleaving.operands[1].type),
        )
        assert part is not None
        has_all = whole.shape[-1] == channels
        return interleaving if has_all or holds_channels(whole, part.offsets[-1], channels) else None
    destination = None if group.insertion is None else match_insert(group.insertion)
    if destination is None:
        return None
    type_ = ir.RankedTensorType(destination.whole.type)
    return group.insertion if holds_channels(type_, destination.first, channels) else None


def source_of(group: ConvolutionGroup) -> ChannelSlice:
    """Where kernels read a convolution's input: in a larger tensor, or in one of its own."""
    source = group.source
    type_ = ir.RankedTensorType(source.whole.type)
    if source.whole == group.input_transform.input or holds_channels(
        type_, source.first, group.shape.input_channels
    ):
        return source
    return ChannelSlice(group.input_transform.input)
