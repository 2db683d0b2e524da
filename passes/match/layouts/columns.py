"""Columns of matrices, where they are in memory."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import prod

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.layouts.strided_view import Run, StridedView, views
from iree.winograd.passes.match.sizes import is_dynamic


@dataclass(frozen=True)
class ColumnMatrices:
    """Where matrices of `length` x `columns` lie, `count` in each element of the batch.

    Element (r, c) of number m is that at `first + m * matrix_stride + r * row_stride + c`.
    """

    count: int
    length: int
    columns: int
    first: int
    matrix_stride: int
    row_stride: int

    @staticmethod
    def dense(count: int, length: int, columns: int) -> ColumnMatrices:
        """Behind each other, row-major."""
        return ColumnMatrices(count, length, columns, 0, length * columns, columns)


@dataclass(frozen=True)
class Columns:
    """A tensor as columns of matrices, which lie along one of its dimensions.

    `sizes` are those of its runs of elements in the order of memory; `order` has for each of the tensor's
    own, one dimension after the other, which of these it is.
    """

    source: ir.Value
    matrices: ColumnMatrices
    sizes: tuple[int, ...]
    order: tuple[int, ...]


def columns_along(value: ir.Value, dimension: int) -> Columns:
    """Those of a tensor along `dimension`, of the furthest source of its elements that has them as columns.

    Neighbours in a row have to lie side by side there. A tensor whose first size is known only at run time
    is its own source; the dimension is another one.
    """
    shape = list(ir.RankedTensorType(value.type).shape)
    if is_dynamic(shape[0]):
        matrices = ColumnMatrices.dense(
            prod(shape[1:dimension]), shape[dimension], prod(shape[dimension + 1 :])
        )
        return Columns(value, matrices, tuple(shape), tuple(range(len(shape))))
    for view in views(value):
        columns = _columns(view, dimension)
        if columns is not None:
            return columns
    raise AssertionError("a tensor is a view of itself")


def _columns(view: StridedView, dimension: int) -> Columns | None:
    if view.factor != 1 or len(view.dimensions[dimension]) != 1:
        return None
    ((length, row_stride),) = view.dimensions[dimension]
    runs = [run for runs in view.dimensions for run in runs]
    in_memory = sorted(runs, key=lambda run: run[1], reverse=True)
    outer = _one_run([run for run in in_memory if run[1] > row_stride], stride_of_none=length * row_stride)
    inner = _one_run([run for run in in_memory if run[1] < row_stride], stride_of_none=1)
    if outer is None or inner is None or inner[1] != 1:
        return None
    matrices = ColumnMatrices(outer[0], length, inner[0], view.first, outer[1], row_stride)
    sizes = tuple(count for count, _ in in_memory)
    return Columns(view.source, matrices, sizes, tuple(in_memory.index(run) for run in runs))


def _one_run(runs: list[Run], stride_of_none: int) -> Run | None:
    """Runs that continue each other, the outermost first, as one; None for others."""
    if not runs:
        return 1, stride_of_none
    for (_, stride), (count, inner) in pairwise(runs):
        if stride != count * inner:
            return None
    return prod(count for count, _ in runs), runs[-1][1]
