"""Which products of the matrices of a batch a kernel computes faster than IREE's code."""

from __future__ import annotations

from iree.winograd.passes.match.no_match import Reason
from iree.winograd.pipelines.problems.tensor_operations import BatchedProduct, TensorOperation

_LEAST_ROWS = 12
"""Fewer are multiplied in less time than a panel is packed in."""
_WHOLE_TILES = 16
"""Sizes that are multiples of it are those of the tiles that IREE's code is made of."""


def slower_than_iree(operation: TensorOperation) -> Reason | None:
    """Why IREE's code is as fast, as measured on a core of Zen 4; None where a kernel is faster."""
    if not isinstance(operation, BatchedProduct):
        return None
    problem = operation.product.problem
    if problem.rows < _LEAST_ROWS:
        return f"IREE multiplies {problem.rows} rows as fast"
    sizes = (problem.rows, problem.columns, problem.reduction)
    if problem.is_in_order and all(size % _WHOLE_TILES == 0 for size in sizes):
        return "IREE multiplies matrices of whole tiles as fast where nothing is moved"
    return None
