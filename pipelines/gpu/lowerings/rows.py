"""From softmax and layer normalization of rows, and softmax of columns, to dispatches."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.tensors import size_of
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.pipelines.emission.numbers.f32 import F32
from iree.winograd.pipelines.emission.work import BATCH
from iree.winograd.pipelines.gpu.device.launch import Launcher, TensorArgument, WorkgroupThreads
from iree.winograd.pipelines.gpu.device.memory import QUAD
from iree.winograd.pipelines.gpu.kernels.reductions.column_softmax import COLUMN_THREADS, ColumnSoftmaxKernel
from iree.winograd.pipelines.gpu.kernels.reductions.layer_norm import LayerNormKernel
from iree.winograd.pipelines.gpu.kernels.reductions.rows import ROW_THREADS, SharedRows
from iree.winograd.pipelines.gpu.kernels.reductions.short_rows import SHORT_ROW_THREADS, ShortRowSoftmaxKernel
from iree.winograd.pipelines.gpu.kernels.reductions.softmax import SoftmaxKernel
from iree.winograd.pipelines.problems.tensor_operations import ColumnSoftmax, RowNormalization, RowSoftmax


def lowered_rows(launcher: Launcher, operation: RowSoftmax | RowNormalization) -> ir.Value:
    """Emits the dispatch of an operation on rows."""
    if isinstance(operation, RowSoftmax) and ShortRowSoftmaxKernel.suits(operation.length):
        return _lowered_short(launcher, operation)
    kernel: SoftmaxKernel | LayerNormKernel
    half = operation.half
    if isinstance(operation, RowSoftmax):
        source, parameters = operation.rows, []
        like = source
        inner = prod(ir.RankedTensorType(source.type).shape[1:])
        element = str(ir.RankedTensorType(source.type).element_type)
        stored = F32.name if half is None else str(half)
        together = launcher.target.together(operation.length, element, stored)
        shared = SharedRows(operation.length, together, launcher.target.takes_ptx)
        by_instruction = half is not None and launcher.target.takes_ptx
        kernel = SoftmaxKernel(inner // operation.length, shared, operation.safe, by_instruction)
    else:
        found, read = operation.layer_norm, operation.rearrangement
        source, like = (found.source,) * 2 if read is None else (read.source, read.result)
        parameters = [each for each in (found.scale, found.shift) if each is not None]
        # With octets fewer threads have registers for scale and shift: 0.62 of memory's speed, not 0.8.
        shared = SharedRows(found.length, by_warps=launcher.target.takes_ptx)
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


def _lowered_short(launcher: Launcher, operation: RowSoftmax) -> ir.Value:
    source, length, half = operation.rows, operation.length, operation.half
    batch, *inner = ir.RankedTensorType(source.type).shape
    elements = prod(inner) * (1 if is_dynamic(batch) else batch)
    argument = TensorArgument.of(source, by_quads=elements % QUAD == 0)
    element = F32.name if half is None else str(half)
    together = launcher.target.together(elements, argument.element, element) if argument.by_quads else 1
    argument = replace(argument, together=max(together, QUAD))
    by_instruction = half is not None and launcher.target.takes_ptx
    kernel = ShortRowSoftmaxKernel(prod(inner) // length, length, operation.safe, by_instruction, together)
    threads, sizes = WorkgroupThreads(SHORT_ROW_THREADS), {BATCH: size_of(source, 0)}
    result = replace(argument, element=element)
    return launcher.launch(kernel, kernel.name, threads, [(source, argument)], result, sizes)


def lowered_columns(launcher: Launcher, operation: ColumnSoftmax) -> ir.Value:
    """Emits the dispatch of the softmax of columns, in the order of their sizes."""
    columns = operation.columns
    kernel = ColumnSoftmaxKernel(columns.matrices, operation.safe)
    source = TensorArgument.of(columns.source, by_quads=kernel.width == QUAD)
    threads = WorkgroupThreads(COLUMN_THREADS)
    result = replace(source, extents=columns.sizes)
    return launcher.launch(kernel, kernel.name, threads, [(columns.source, source)], result)
