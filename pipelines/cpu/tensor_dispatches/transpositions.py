"""Images that are transposed: channels made last or first, or shuffled."""

from __future__ import annotations

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
        Size("input", dimension): size_of(image, first + dimension) for dimension in range(type_.rank - 2)
    }
    dynamic = image_tensor(type_, "input", channels_first=not makes_first).dynamic
    return TensorDispatch(kernel, (image,), sizes, extents=extents, dynamic=(dynamic, dynamic))


def misfit_of_first(operation: ChannelsFirst, target: CpuTarget) -> Reason | None:
    _, *size, channels = operation.image.type.shape
    half = half_type(operation.image)
    if any(map(is_dynamic, size)) or (half is not None and channels >= EXCHANGED_HALVES):
        return None
    return f"IREE makes {channels} channels of {half or 'f32'} first as fast in images of known size"


def misfit_of_shuffle(operation: ChannelShuffle, target: CpuTarget) -> Reason | None:
    _, groups, channels = operation.image.type.shape
    if groups > MAX_INTERLEAVED_CHANNELS:
        return f"IREE shuffles {groups} groups of channels as fast"
    if channels < target.vector_width:
        return f"groups of {channels} channels fill no vector"
    return None
