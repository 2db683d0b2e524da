"""From resampled images to dispatches."""

from __future__ import annotations

from dataclasses import replace

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.constants import resource_constant
from iree.winograd.passes.match.convolutions.element_types import element_bytes
from iree.winograd.passes.match.navigation import is_empty
from iree.winograd.pipelines.emission.numbers.f32 import F32
from iree.winograd.pipelines.gpu.device.launch import Launcher, TensorArgument, WorkgroupThreads
from iree.winograd.pipelines.gpu.device.memory import PAIR, QUAD
from iree.winograd.pipelines.gpu.kernels.images.resampling import ResamplingKernel, TapTable
from iree.winograd.pipelines.problems.tensor_operations import ResampledImage


def _kernel(launcher: Launcher, operation: ResampledImage) -> ResamplingKernel:
    """The kernel of an operation."""
    axes = operation.resampling.axes
    taps = tuple((dimension, axis.taps) for dimension, axis in sorted(axes.items()))
    extents = tuple(ir.RankedTensorType(operation.result.type).shape)
    source = ir.RankedTensorType(operation.resampling.source.type)
    elements = str(source.element_type), str(operation.half or source.element_type)
    kernel = ResamplingKernel(extents, taps, launcher.target.together(extents[-1], *elements))
    is_half = element_bytes(elements[-1]) < F32.bytes
    if is_half and launcher.target.takes_ptx and operation.destination is None:
        kernel = kernel.stored_by(PAIR)
    return kernel.of_image(axes, source.shape)


def lowered_resampling(launcher: Launcher, operation: ResampledImage) -> ir.Value:
    """Emits the dispatch of an operation: its result, or the tensor that this is inserted into."""
    kernel, source = _kernel(launcher, operation), operation.resampling.source
    together = max(kernel.width, QUAD)
    operands = [(source, replace(TensorArgument.of(source, kernel.reads_quads), together=together))]
    for _, axis in sorted(kernel.read_by(operation.resampling.axes).items()):
        table = TapTable(axis.taps)
        constant = resource_constant(table.of(axis), "taps")
        operands.append((constant, TensorArgument.of(constant, table.by_quads)))
    by_quads = kernel.width > 1
    if kernel.singles > 1:
        by_quads, together = True, kernel.singles
    result, updated = replace(TensorArgument.of(operation.result, by_quads), together=together), None
    if operation.half is not None:
        result = replace(result, element=str(operation.half))
    if operation.destination is not None:
        whole, first = operation.destination.whole, operation.destination.first
        result = replace(TensorArgument.of(whole, by_quads), together=together).from_channel(first)
        updated = None if is_empty(whole) else whole
    threads = WorkgroupThreads(kernel.threads)
    return launcher.launch(kernel, kernel.name, threads, operands, result, updated=updated)
