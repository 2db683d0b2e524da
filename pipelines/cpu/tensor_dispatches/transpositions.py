"""Images that are transposed: channels made last or first, or shuffled."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.tensors import size_of
from iree.winograd.passes.match.no_match import Reason
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.passes.match.values.half_precision import half_type
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.processor.transposition import EXCHANGED_HALVES, MAX_INTERLEAVED_CHANNELS
from iree.winograd.pipelines.emission.convolution_signature import image_tensor
from iree.winograd.pipelines.emission.work import Size
from iree.winograd.pipelines.problems.tensor_operations import ChannelsFirst, ChannelShuffle, ChannelsLast

from .dispatch import TensorDispatch

_ELEMENT_BYTES = 4
_WAY_BYTES = 4096
"""Of L1: addresses so far apart are in one set."""
_WAYS = 8
"""Lines of a set, the fewest of today's processors with 32 KiB and more."""
_LEAST_BYTES = 1 << 19
"""Of an image, of which fetching lines again takes longer than a launch: others stay in L2."""


def channels_last(operation: ChannelsLast | ChannelShuffle, target: CpuTarget) -> TensorDispatch:
    batch, channels, *size = operation.image.type.shape
    return _transposed(operation.image, (batch, *size, channels), target, makes_first=False)


def channels_first(operation: ChannelsFirst, target: CpuTarget) -> TensorDispatch:
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
        Size("output", dimension): size_of(image, first + dimension) for dimension in range(type_.rank - 2)
    }
    dynamic = image_tensor(type_, "output", channels_first=not makes_first).dynamic
    return TensorDispatch(kernel, (image,), sizes, extents=extents, dynamic=(dynamic, dynamic))


def misfit_of_first(operation: ChannelsFirst, target: CpuTarget) -> Reason | None:
    _, *size, channels = operation.image.type.shape
    half = half_type(operation.image)
    if operation.is_computed:
        return (
            None if _share_sets(size, channels) else f"L1 holds the lines of {channels} channels side by side"
        )
    if any(map(is_dynamic, size)) or (half is not None and channels >= EXCHANGED_HALVES):
        return None
    return f"IREE makes {channels} channels of {half or 'f32'} first as fast in images of known size"


def _share_sets(size: Sequence[int], channels: int) -> bool:
    """Whether L1 has no room for a line of each channel of an f32 image, `channels` first, from a pixel on.

    Lines so many bytes apart are in the same set. IREE's code, which stores a computed image so, writes all
    channels of a pixel before the next, and each line is fetched again for each of its pixels. Of unknown
    sizes it is taken for certain: images whose sides are multiples of 32 are as bad as can be.
    """
    if any(map(is_dynamic, size)):
        return channels > _WAYS
    plane = _ELEMENT_BYTES * prod(size)
    return channels * plane >= _LEAST_BYTES and channels > _WAYS * (_WAY_BYTES // gcd(plane, _WAY_BYTES))


def misfit_of_shuffle(operation: ChannelShuffle, target: CpuTarget) -> Reason | None:
    _, groups, channels = operation.image.type.shape
    if groups > MAX_INTERLEAVED_CHANNELS:
        return f"IREE shuffles {groups} groups of channels as fast"
    if channels < target.vector_width:
        return f"groups of {channels} channels fill no vector"
    return None
