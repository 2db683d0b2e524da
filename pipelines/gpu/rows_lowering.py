"""From softmax and layer normalization of rows to dispatches."""

from __future__ import annotations

from math import prod

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.tensors import size_of
from iree.winograd.pipelines.emission.work import BATCH
from iree.winograd.pipelines.gpu.device.launch import Launcher, TensorArgument, WorkgroupThreads
from iree.winograd.pipelines.gpu.device.memory import QUAD
from iree.winograd.pipelines.gpu.kernels.layer_norm import LayerNormKernel
from iree.winograd.pipelines.gpu.kernels.rows import ROW_THREADS, SharedRows
from iree.winograd.pipelines.gpu.kernels.softmax import SoftmaxKernel
from iree.winograd.pipelines.problems.tensor_operations import RowNormalization, RowSoftmax


def lowered_rows(launcher: Launcher, operation: RowSoftmax | RowNormalization) -> ir.Value:
    """Emits the dispatch of an operation on rows."""
    kernel: SoftmaxKernel | LayerNormKernel
    if isinstance(operation, RowSoftmax):
        source, parameters = operation.rows, []
        inner = prod(ir.RankedTensorType(source.type).shape[1:])
        shared = SharedRows(operation.length)
        kernel = SoftmaxKernel(inner // operation.length, shared, operation.safe)
    else:
        found = operation.layer_norm
        source = found.source
        parameters = [each for each in (found.scale, found.shift) if each is not None]
        shared = SharedRows(found.length)
        kernel = LayerNormKernel(
            prod(ir.RankedTensorType(source.type).shape[1:-1]),
            shared,
            found.epsilon,
            found.scale is not None,
            found.shift is not None,
        )
    by_quads = shared.width == QUAD
    operands = [(each, TensorArgument.of(each, by_quads)) for each in (source, *parameters)]
    result = TensorArgument.of(source, by_quads)
    threads = WorkgroupThreads(ROW_THREADS)
    return launcher.launch(kernel, kernel.name, threads, operands, result, {BATCH: size_of(source, 0)})
