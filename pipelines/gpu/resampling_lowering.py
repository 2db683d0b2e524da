"""From resampled images to dispatches."""

from __future__ import annotations

from dataclasses import replace

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.constants import resource_constant
from iree.winograd.passes.match.navigation import is_empty
from iree.winograd.pipelines.gpu.device.launch import Launcher, TensorArgument, WorkgroupThreads
from iree.winograd.pipelines.gpu.kernels.resampling import RESAMPLING_THREADS, ResamplingKernel, TapTable
from iree.winograd.pipelines.problems.tensor_operations import ResampledImage


def resampling_kernel(operation: ResampledImage) -> ResamplingKernel:
    """The kernel of an operation."""
    axes = sorted(operation.resampling.axes.items())
    taps = tuple((dimension, axis.taps) for dimension, axis in axes)
    return ResamplingKernel(tuple(ir.RankedTensorType(operation.result.type).shape), taps)


def lowered_resampling(launcher: Launcher, operation: ResampledImage) -> ir.Value:
    """Emits the dispatch of an operation: its result, or the tensor that this is inserted into."""
    kernel, source = resampling_kernel(operation), operation.resampling.source
    operands = [(source, TensorArgument.of(source, kernel.reads_quads))]
    for _, axis in sorted(operation.resampling.axes.items()):
        table = TapTable(axis.taps)
        constant = resource_constant(table.of(axis), "taps")
        operands.append((constant, TensorArgument.of(constant, table.by_quads)))
    by_quads = kernel.width > 1
    result, updated = TensorArgument.of(operation.result, by_quads), None
    if operation.half is not None:
        result = replace(result, element=str(operation.half))
    if operation.destination is not None:
        whole, first = operation.destination.whole, operation.destination.first
        rank = len(kernel.extents)
        result = TensorArgument.of(whole, by_quads).part([0] * (rank - 1) + [first], [1] * rank)
        updated = None if is_empty(whole) else whole
    threads = WorkgroupThreads(RESAMPLING_THREADS)
    return launcher.launch(kernel, kernel.name, threads, operands, result, updated=updated)
