"""From softmax and layer normalization of rows, and softmax of columns, to dispatches."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.tensors import size_of
from iree.winograd.pipelines.emission.numbers.f32 import F32
from iree.winograd.pipelines.emission.work import BATCH
from iree.winograd.pipelines.gpu.device.launch import Launcher, TensorArgument, WorkgroupThreads
from iree.winograd.pipelines.gpu.device.memory import QUAD
from iree.winograd.pipelines.gpu.kernels.column_softmax import COLUMN_THREADS, ColumnSoftmaxKernel
from iree.winograd.pipelines.gpu.kernels.layer_norm import LayerNormKernel
from iree.winograd.pipelines.gpu.kernels.rows import ROW_THREADS, SharedRows
from iree.winograd.pipelines.gpu.kernels.softmax import SoftmaxKernel
from iree.winograd.pipelines.problems.tensor_operations import ColumnSoftmax, RowNormalization, RowSoftmax


def lowered_rows(launcher: Launcher, operation: RowSoftmax | RowNormalization) -> ir.Value:
    """Emits the dispatch of an operation on rows."""
    kernel: SoftmaxKernel | LayerNormKernel
    half = operation.half
    if isinstance(operation, RowSoftmax):
        source, parameters = operation.rows, []
        like = source
        inner = prod(ir.RankedTensorType(source.type).shape[1:])
        shared = _shared(launcher, operation.length, source, half)
        by_instruction = half is not None and launcher.target.takes_ptx
        kernel = SoftmaxKernel(inner // operation.length, shared, operation.safe, by_instruction)
    else:
        found, read = operation.layer_norm, operation.rearrangement
        source, like = (found.source,) * 2 if read is None else (read.source, read.result)
        parameters = [each for each in (found.scale, found.shift) if each is not None]
        shared = _shared(launcher, found.length, source, half)
        if read is not None and not read.places.keeps(shared.width):
            shared = SharedRows(found.length)
        kernel = LayerNormKernel(
            prod(ir.RankedTensorType(like.type).shape[1:]) // found.length,
            shared,
            found.epsilon,
            found.scale is not None,
            found.shift is not None,
            None if read is None else read.places,
        )

    def argument(tensor: ir.Value) -> TensorArgument:
        return replace(TensorArgument.of(tensor, by_quads=shared.width > 1), together=shared.together)

    operands = [(each, argument(each)) for each in (source, *parameters)]
    result = replace(argument(like), element=F32.name if half is None else str(half))
    threads = WorkgroupThreads(ROW_THREADS)
    return launcher.launch(kernel, kernel.name, threads, operands, result, {BATCH: size_of(like, 0)})


def _shared(launcher: Launcher, length: int, source: ir.Value, half: ir.Type | None) -> SharedRows:
    """How threads share rows that are stored in half precision, or in f32."""
    element = str(ir.RankedTensorType(source.type).element_type)
    return SharedRows(
        length, launcher.target.together(length, element, F32.name if half is None else str(half))
    )


def lowered_columns(launcher: Launcher, operation: ColumnSoftmax) -> ir.Value:
    """Emits the dispatch of the softmax of columns, in the order of their sizes."""
    columns = operation.columns
    kernel = ColumnSoftmaxKernel(columns.matrices, operation.safe)
    source = TensorArgument.of(columns.source, by_quads=kernel.width == QUAD)
    threads = WorkgroupThreads(COLUMN_THREADS)
    result = replace(source, extents=columns.sizes)
    return launcher.launch(kernel, kernel.name, threads, [(columns.source, source)], result)
