"""Softmax and normalization of rows, and of columns."""

from __future__ import annotations

from math import prod

from iree.winograd.passes.match.no_match import Reason
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.problems.tensor_operations import ColumnSoftmax, RowNormalization, RowSoftmax

from .dispatch import TensorDispatch

_LEAST_ROW = 16
"""Shorter rows don't fill a vector of every target."""


def row_softmax(operation: RowSoftmax, target: CpuTarget) -> TensorDispatch:
    from iree.winograd.pipelines.cpu.kernels.softmax import SoftmaxKernel

    shape = tuple(operation.rows.type.shape)
    kernel = SoftmaxKernel(prod(shape[1:]) // operation.length, operation.length, target, operation.safe)
    return TensorDispatch(kernel, (operation.rows,), shape)


def column_softmax(operation: ColumnSoftmax, target: CpuTarget) -> TensorDispatch:
    from iree.winograd.pipelines.cpu.kernels.column_softmax import ColumnSoftmaxKernel

    columns = operation.columns
    kernel = ColumnSoftmaxKernel(columns.matrices, target, operation.safe)
    return TensorDispatch(kernel, (columns.source,), tuple(columns.sizes), batch=1)


def row_normalization(operation: RowNormalization, target: CpuTarget) -> TensorDispatch:
    from iree.winograd.pipelines.cpu.kernels.layer_norm import LayerNormKernel

    found = operation.layer_norm
    shape = tuple(found.source.type.shape)
    kernel = LayerNormKernel(
        prod(shape[1:-1]),
        found.length,
        found.epsilon,
        found.scale is not None,
        found.shift is not None,
        target,
    )
    parameters = (each for each in (found.scale, found.shift) if each is not None)
    return TensorDispatch(kernel, (found.source, *parameters), shape)


def misfit_of_normalization(operation: RowNormalization, target: CpuTarget) -> Reason | None:
    if operation.rearrangement is not None:
        return "rows are read in the order of memory on CPUs"
    if operation.half is not None:
        return "rows are stored in f32 on CPUs"
    return misfit_of_rows(operation.layer_norm.length)


def misfit_of_rows(length: int) -> Reason | None:
    return f"rows of {length} elements fill no vector" if length < _LEAST_ROW else None
