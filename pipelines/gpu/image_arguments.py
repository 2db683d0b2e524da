"""Images of either layout as arguments of kernels, and the kernel that changes their layout."""

from __future__ import annotations

from dataclasses import replace

from iree.winograd.dialect.bindings import ir
from iree.winograd.dialect.ops import GradientTransformOp, InputTransformOp
from iree.winograd.passes.build.tensors import size_of
from iree.winograd.passes.match.image_layout import to_channels_last
from iree.winograd.pipelines.gpu.device.launch import Launcher, Operand, TensorArgument, WorkgroupThreads
from iree.winograd.pipelines.gpu.kernels.image_transposition import (
    TRANSPOSITION_THREADS,
    ImageTransposition,
)


def image_operand(transform: InputTransformOp | GradientTransformOp, by_quads: bool) -> Operand:
    """What a transform reads, as an array N x H... x C of a kernel."""
    (image,) = transform.operands
    return image, image_array(image, by_quads, channels_first=transform.channels_first)


def image_array(image: ir.Value, by_quads: bool, *, channels_first: bool) -> TensorArgument:
    """An image of either layout as an array N x H... x C of a kernel."""
    rank = ir.RankedTensorType(image.type).rank
    return TensorArgument.permuted(image, to_channels_last(rank) if channels_first else range(rank), by_quads)


def transposed(
    launcher: Launcher, image: ir.Value, kernel: ImageTransposition, extents: tuple[int | None, ...]
) -> ir.Value:
    """An image in the other layout, of `extents`."""
    source = TensorArgument.of(image, by_quads=False)
    threads = WorkgroupThreads(TRANSPOSITION_THREADS)
    result = replace(source, extents=extents)
    return launcher.launch(kernel, kernel.name, threads, [(image, source)], result, size_of(image, 0))
