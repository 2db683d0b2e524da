"""Pixels that are selected from images, or summed along rows of these."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.tensors import size_of
from iree.winograd.passes.match.no_match import Reason
from iree.winograd.passes.rewrite.merged_elementwise import build_together
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.emission.convolution_signature import image_tensor
from iree.winograd.pipelines.emission.numbers.f32 import F32
from iree.winograd.pipelines.emission.work import Size
from iree.winograd.pipelines.problems.tensor_operations import PixelSelection, RowSums

from .dispatch import TensorDispatch
from .image_sizes import image_sizes, shape_like


def pixel_selection(operation: PixelSelection, target: CpuTarget) -> TensorDispatch:
    from iree.winograd.pipelines.cpu.kernels.selection import SelectionKernel
    from iree.winograd.pipelines.emission.selection import Selection

    image, like, destination = operation.image, operation.like, operation.destination
    rounded = None if operation.rounded is None else str(operation.rounded)
    selection = Selection(operation.is_weighted, image.type.shape[-1], rounded)
    first = 0 if destination is None else destination.first
    kernel = SelectionKernel(selection, target, first, operation.makes_first)
    sizes = shape_like(image, like if destination is None else destination.whole)
    if operation.makes_first:
        batch, *size, channels = sizes
        sizes = (batch, channels, *size)
    extents, (read, written) = image_sizes(image, like)
    # IREE would compute each in a dispatch.
    tables = [
        (dimension, table)
        for dimension, taps in enumerate(operation.taps)
        for table in build_together([each for tap in taps for each in tap.tables])
    ]
    of_tables = [(Size("output", d),) if table.type.is_dynamic_dim(0) else () for d, table in tables]
    return TensorDispatch(
        kernel,
        (image, *(table for _, table in tables)),
        sizes,
        extents=extents,
        dynamic=(read, *of_tables, written),
        element=None if operation.half is None else str(operation.half),
    )


def row_sums(operation: RowSums, target: CpuTarget) -> TensorDispatch:
    from iree.winograd.pipelines.cpu.kernels.row_sums import RowSumsKernel

    image, type_ = operation.image, ir.RankedTensorType(operation.image.type)
    batch, *size, channels = type_.shape
    kernel = RowSumsKernel(len(size), channels, target)
    extents = {Size("input", dimension): size_of(image, 1 + dimension) for dimension in range(len(size))}
    read = image_tensor(type_, "input", channels_first=False).dynamic
    written = tuple(each for each in read if each != Size("input", len(size) - 1))
    sizes = (batch, *size[:-1], channels)
    return TensorDispatch(kernel, (image,), sizes, extents=extents, dynamic=(read, written), element=F32.name)


def misfit_of_row_sums(operation: RowSums, target: CpuTarget) -> Reason | None:
    if operation.dimensions > 1:
        return "sums over several dimensions are sums of sums on CPUs"
    return "IREE divides sums where it reads them on CPUs" if operation.divisors else None
