"""Products of the matrices of a batch, none of which is known before the program runs, as in attention."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from iree.winograd.dialect.bindings import ir, linalg_structure
from iree.winograd.passes.match.layouts.strided_view import Dimension, StridedView, moved, views, whole
from iree.winograd.passes.match.navigation import only_user
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.passes.match.values.constants import is_known_at_load, is_zero
from iree.winograd.passes.match.values.conversions import is_narrowing, rounding_type

_OPERATION_NAME = "linalg.batch_matmul"
_LEFT, _RIGHT, _RESULT = "bmk", "bkn", "bmn"
_MOVES = ("linalg.transpose", "tensor.expand_shape", "tensor.collapse_shape")


@dataclass(frozen=True)
class Matrices:
    """Where the matrices of a batch lie: elements (i, j) at `row_stride * i + column_stride * j`."""

    first: int
    batch: Dimension
    row_stride: int
    column_stride: int


@dataclass(frozen=True)
class BatchProduct:
    """output[b, i, j] = factor * sum over c of left[b, i, c] * right[b, c, j], in f32."""

    batch: int
    rows: int
    columns: int
    reduction: int
    left: Matrices
    right: Matrices
    output: Matrices
    factor: float = 1.0

    @property
    def multiply_adds(self) -> int:
        return self.batch * self.rows * self.columns * self.reduction

    @property
    def is_in_order(self) -> bool:
        """Whether all matrices are dense, row-major and behind each other."""
        extents = (self.rows, self.reduction), (self.reduction, self.columns), (self.rows, self.columns)
        operands = zip((self.left, self.right, self.output), extents, strict=True)
        return all(matrices == _in_order(self.batch, *sizes) for matrices, sizes in operands)


def _in_order(batch: int, rows: int, columns: int) -> Matrices:
    return Matrices(0, ((batch, rows * columns),) if batch > 1 else (), columns, 1)


@dataclass(frozen=True)
class BatchMatmul:
    """A product of matrices that are read, and written, where they are."""

    operation: ir.Operation
    problem: BatchProduct
    left: ir.Value
    right: ir.Value
    result: ir.Value
    """That of the operation, or of the transposition that is all that reads it."""


def is_batch_matmul(operation: ir.Operation) -> bool:
    return bool(operation.name == _OPERATION_NAME)


def match_batch_matmul(operation: ir.Operation) -> BatchMatmul | NoMatch:
    """The product that an operation is for which `is_batch_matmul` holds."""
    left, right, init = operation.operands
    maps = letters_of(operation)
    if [sorted(each) for each in maps] != [sorted(each) for each in (_LEFT, _RIGHT, _RESULT)]:
        return NoMatch(operation, "an operand of it is broadcast")
    for operand in (left, right, init):
        if not isinstance(operand.type.element_type, ir.F32Type):
            return NoMatch(operation, f"it has elements of type {operand.type.element_type}, not f32")
    sizes = dict(zip("".join(maps), [*left.type.shape, *right.type.shape, *init.type.shape], strict=True))
    if any(map(is_dynamic, sizes.values())):
        return NoMatch(operation, "its sizes are known only at run time")
    if 0 in sizes.values():
        return NoMatch(operation, "it has no elements")
    if not is_zero(init):
        return NoMatch(operation, "its sums don't begin with zero")
    if any(map(is_known_at_load, (left, right))):
        return NoMatch(operation, "a matrix of it is known before the program runs")
    (left_view, left_matrices), (right_view, right_matrices) = (
        operand_of(value, letters, order)
        for value, letters, order in ((left, maps[0], _LEFT), (right, maps[1], _RIGHT))
    )
    result, output = output_of(operation, maps[2])
    problem = BatchProduct(
        sizes["b"],
        sizes["m"],
        sizes["n"],
        sizes["k"],
        left_matrices,
        right_matrices,
        output,
        left_view.factor * right_view.factor,
    )
    return BatchMatmul(operation, problem, left_view.source, right_view.source, result)


def match_single_matmul(operation: ir.Operation) -> BatchProduct | None:
    """What an operation is for which `is_batch_matmul` holds, of one matrix whose dimensions are in order."""
    product = match_batch_matmul(operation)
    if isinstance(product, NoMatch) or product.problem.batch != 1:
        return None
    maps = letters_of(operation)
    return product.problem if maps == [_LEFT, _RIGHT, _RESULT] else None


def letters_of(product: ir.Operation) -> list[str]:
    """The loops that index the operands of a product: of the matrices of the batch, rows and columns."""
    return [_letters(ir.AffineMapAttr(each).value) for each in linalg_structure.get_indexing_maps(product)]


def _letters(indexing_map: ir.AffineMap) -> str:
    """The loops of a product that index the dimensions of an operand, by the letters of `_LEFT` and so on."""
    results = [ir.AffineDimExpr(result).position for result in indexing_map.results]
    return "".join("bmnk"[position] for position in results)


def operand_of(
    value: ir.Value, letters: str, order: str, *, widens: bool = False, rounds: bool = True
) -> tuple[StridedView, Matrices]:
    """The furthest source in which elements of a row, or of a column, lie side by side.

    If the reader `widens`, it may be of half precision. Unless it `rounds`, a factor's product isn't rounded.
    """
    for view in views(value, widens=widens, rounds=rounds):
        matrices = _matrices(view, letters, order)
        if matrices is not None:
            return view, matrices
    raise AssertionError("a tensor is a view of itself")


def _matrices(view: StridedView, letters: str, order: str) -> Matrices | None:
    batch, rows, columns = (view.dimensions[letters.index(letter)] for letter in order)
    if len(rows) > 1 or len(columns) > 1:
        return None
    (row_stride, column_stride) = (runs[0][1] if runs else 1 for runs in (rows, columns))
    return (
        Matrices(view.first, batch, row_stride, column_stride) if 1 in (row_stride, column_stride) else None
    )


def output_of(product: ir.Operation, letters: str, *, narrows: bool = False) -> tuple[ir.Value, Matrices]:
    """What the product is written as: its result, or a transposition of that if columns stay side by side.

    If what writes it `narrows`, that may be rounded to half precision, or to numbers of it in f32.
    """
    result = product.results[0]
    view = whole(result)
    matrices = _matrices(view, letters, _RESULT)
    assert matrices is not None
    extents = tuple(result.type.shape[letters.index(letter)] for letter in _RESULT)
    found, value = (result, matrices), result
    while (user := only_user(value)) is not None and user.operands[0] == value:
        is_rounded = narrows and (is_narrowing(user) or rounding_type(user) is not None)
        if user.name not in _MOVES and not is_rounded:
            break
        following = view if is_rounded else moved(view, user)
        # In a loop the product would be computed each time.
        if following is None or user.block != product.block:
            break
        view, value = following, user.results[0]
        if user.name == "linalg.transpose" or is_rounded:
            inverse = _inverse(view, matrices, extents)
            found = found if inverse is None else (value, inverse)
    return found


def _inverse(view: StridedView, source: Matrices, extents: tuple[int, ...]) -> Matrices | None:
    """Where a tensor, which is a view of all elements of products, has those of each product."""
    if source.column_stride != 1 or source.row_stride != extents[2]:
        return None
    runs = [run for dimension in view.dimensions for run in dimension]
    places = {
        stride: (count, prod(inner for inner, _ in runs[number + 1 :]))
        for number, (count, stride) in enumerate(runs)
    }
    strides = sorted(places, reverse=True)
    boundary = extents[1] * extents[2]
    batch = tuple(places[stride] for stride in strides if stride >= boundary)
    rows = tuple(places[stride] for stride in strides if extents[2] <= stride < boundary)
    columns = tuple(places[stride] for stride in strides if stride < extents[2])
    # A run may be of elements of several products, or of rows and columns.
    counts = tuple(prod(count for count, _ in runs) for runs in (batch, rows, columns))
    if counts != extents or len(rows) > 1 or len(columns) > 1:
        return None
    row_stride, column_stride = (place[0][1] if place else 1 for place in (rows, columns))
    return Matrices(0, batch, row_stride, column_stride) if column_stride == 1 else None
