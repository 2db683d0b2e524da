"""Which outputs kernels write where a program inserts them."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.channel_slice import match_insert
from iree.winograd.pipelines.gpu.device.memory import QUAD
from iree.winograd.pipelines.problems.group import ConvolutionGroup


def insertion_of(group: ConvolutionGroup) -> ir.Operation | None:
    """What inserts a convolution's outputs between others of a tensor, or as some of its channels.

    Quads of channels that are no quads there, or of images of unknown sizes, stay in a tensor of their own.
    """
    if group.interleaving is not None:
        return group.interleaving
    destination = None if group.insertion is None else match_insert(group.insertion)
    if destination is None:
        return None
    type_ = ir.RankedTensorType(destination.whole.type)
    channels = (type_.shape[-1], destination.first, group.shape.output_channels)
    are_quads = all(each % QUAD == 0 for each in channels)
    return group.insertion if are_quads and type_.has_static_shape else None
