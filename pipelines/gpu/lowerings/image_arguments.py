"""Images of either layout as arguments of kernels, and the kernel that changes their layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from iree.winograd.dialect.bindings import ir
from iree.winograd.dialect.ops import GradientTransformOp, InputTransformOp
from iree.winograd.passes.match.layouts import image_layout
from iree.winograd.passes.match.layouts.channel_slice import ChannelSlice, match_extract
from iree.winograd.passes.match.navigation import unreshaped
from iree.winograd.pipelines.emission.convolution_signature import image_tensor
from iree.winograd.pipelines.emission.work import BATCH, Size
from iree.winograd.pipelines.gpu.device.launch import Launcher, Operand, TensorArgument, WorkgroupThreads
from iree.winograd.pipelines.gpu.device.memory import QUAD
from iree.winograd.pipelines.gpu.kernels.images.image_transposition import (
    IMAGE,
    TRANSPOSITION_THREADS,
    ImageTransposition,
)
from iree.winograd.pipelines.gpu.lowerings.in_place import holds_channels


def image_operand(transform: InputTransformOp | GradientTransformOp, by_quads: bool) -> Operand:
    """What a transform reads, as an array N x H... x C of a kernel."""
    (image,) = transform.operands
    of = "input" if isinstance(transform, InputTransformOp) else "output"
    return image, image_array(image, of, by_quads, channels_first=transform.channels_first)


def image_array(image: ir.Value, of: str, by_quads: bool, *, channels_first: bool) -> TensorArgument:
    """An image of either layout, a convolution's `"input"` or `"output"`, as an array N x H... x C."""
    tensor = image_tensor(image.type, of, channels_first=channels_first)
    rank = tensor.type.rank
    return TensorArgument.of(image, by_quads, tensor).permuted(
        image_layout.to_channels_last(rank) if channels_first else range(rank)
    )


def image_in_place(image: ir.Value, channels: int, *, by_quads: bool) -> Operand:
    """An input N x H... x C of so many channels, which are read where they lie in a larger tensor."""
    source = match_extract(image)
    whole = ir.RankedTensorType(source.whole.type)
    if source.whole != image and holds_channels(whole, source.first, channels):
        return channels_of(source, by_quads)
    return image, image_array(image, "input", by_quads, channels_first=False)


def channels_of(source: ChannelSlice, by_quads: bool, of: str = "input") -> Operand:
    """Channels of a channels-last `"input"` or `"output"`, where they lie."""
    whole = source.whole
    argument = image_array(whole, of, by_quads, channels_first=False)
    return whole, argument.from_channel(source.first)


def pixels_in_place(
    image: ir.Value, channels: int, *, by_quads: bool, together: int = QUAD
) -> tuple[Operand, int]:
    """Pixels of so many channels, and elements from one to the next: in a larger tensor where they lie.

    They are read `together` if by quads.
    """
    part = unreshaped(image)
    source, type_ = match_extract(part), ir.RankedTensorType(part.type)
    whole = ir.RankedTensorType(source.whole.type)
    is_part = source.whole != part and type_.shape[-1] == channels and whole.has_static_shape
    if not is_part or not holds_channels(whole, source.first, channels):
        return (image, replace(TensorArgument.of(image, by_quads), together=together)), channels
    argument = replace(TensorArgument.of(source.whole, by_quads), together=together)
    return (source.whole, argument.from_channel(source.first)), whole.shape[-1]


def transposed(
    launcher: Launcher,
    image: ir.Value,
    batch: int | ir.Value,
    size: Sequence[int | ir.Value],
    *,
    to_channels_first: bool,
    element: str | None = None,
) -> ir.Value:
    """An image in the other layout, of its own type or `element`; `size` is of its spatial dimensions."""
    tensor = image_tensor(image.type, IMAGE, channels_first=not to_channels_first)
    source = TensorArgument.of(image, by_quads=False, tensor=tensor)
    rank = len(source.extents)
    order = image_layout.to_channels_first(rank) if to_channels_first else image_layout.to_channels_last(rank)
    extents = tuple(source.extents[dimension] for dimension in order)
    channels = source.extents[-1 if to_channels_first else 1]
    assert channels is not None
    known = [extent for extent in size if isinstance(extent, int)]
    pixels = prod(known) if len(known) == len(size) else None
    sizes = {BATCH: batch, **{Size(IMAGE, dimension): extent for dimension, extent in enumerate(size)}}
    kernel = ImageTransposition(channels, pixels, to_channels_first=to_channels_first)
    threads = WorkgroupThreads(TRANSPOSITION_THREADS)
    result = replace(source, extents=extents, element=element or source.element)
    return launcher.launch(kernel, kernel.name, threads, [(image, source)], result, sizes)
