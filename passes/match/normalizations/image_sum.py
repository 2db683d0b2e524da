"""Sums over pixels, over channels of a group, or over both, of a tensor as it lies in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from math import prod
from operator import itemgetter

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.elementwise import (
    Elementwise,
    broadcast_source,
    captures,
    match_elementwise,
)
from iree.winograd.passes.match.layouts.strided_view import Run, StridedView, views
from iree.winograd.passes.match.navigation import defining_operation, only_user
from iree.winograd.passes.match.normalizations.reduced import Reduced, match_reduced, match_summed_before
from iree.winograd.passes.match.normalizations.rows import with_body
from iree.winograd.passes.match.values.constants import scalar_constant
from iree.winograd.passes.match.values.conversions import only_computation, rounded_type, rounding_type
from iree.winograd.passes.match.values.half_precision import half_type

_NUMBERS = (ir.F32Type, ir.F16Type, ir.BF16Type)


@dataclass(frozen=True)
class SummedExtents:
    """A dense tensor as `outer x rows x kept x inner`, which is summed over rows and over what is innermost.

    An image whose channels come last has pixels for rows, groups that are kept, and channels of a group
    innermost; one whose channels come first has groups for outer, and all of a group innermost.
    """

    outer: int
    rows: int
    kept: int
    inner: int

    @property
    def summed(self) -> int:
        """Elements of a sum."""
        return self.rows * self.inner

    @property
    def sums(self) -> int:
        return self.outer * self.kept


@dataclass(frozen=True)
class ImageSum:
    """Sums of the elements of `source`, in f32, of static sizes; those of half precision are widened.

    `sizes` are those of the sums in the order of memory; `order` has for each dimension of the program's
    result that isn't one element which of these it is. `finishing` is computed of each sum, one operation
    after the other, and the result of the last one is `result`.
    """

    source: ir.Value
    extents: SummedExtents
    sizes: tuple[int, ...]
    order: tuple[int, ...]
    finishing: tuple[ir.Operation, ...]
    result: ir.Value

    @property
    def half(self) -> ir.Type | None:
        """The type of half precision that the result is rounded to, in f32 or not; None where it isn't."""
        if not self.finishing:
            return None
        *_, end = self.finishing[-1].regions[0].blocks[0].operations
        (yielded,) = end.operation.operands
        return half_type(yielded) or rounded_type(yielded)


@dataclass(frozen=True)
class SquaredDeviations:
    """Sums of squared differences from the mean of the same elements."""

    sums: ImageSum
    """Of the squares; `source` and `extents` are those of the elements themselves."""
    mean: ir.Value
    """The program's mean: the sum of the elements, divided by their number."""


def match_image_sum(reduction: ir.Operation) -> ImageSum | None:
    """The sum that `reduction` is, with what is computed of each sum alone; None for others.

    A mean of means, along one dimension after the other, is one sum, also where it is rounded to half
    precision, as the means before it are.
    """
    reduced = _reduced(reduction)
    if reduced is None:
        return None
    before: list[ir.Operation] = []
    while (inner := match_summed_before(reduced, _scales_or_rounds)) is not None:
        scales, _, reduced = inner
        before = [*scales, *before]
    found = _image_sum(reduced, reduction.results[0], before)
    if found is not None and found.half is None and any(map(_rounds, before)):
        return None
    return found


def match_squared_deviations(reduction: ir.Operation) -> SquaredDeviations | None:
    """The sum that `reduction` is, where it is one of squared differences from a mean; None for others."""
    reduced = _reduced(reduction)
    squares = None if reduced is None else defining_operation(reduced.source)
    differences = None if squares is None else _square_root(squares)
    subtraction = None if differences is None else defining_operation(differences)
    elementwise = None if subtraction is None else with_body(subtraction, ["arith.subf"])
    if reduced is None or elementwise is None or len(elementwise.inputs) != 3:
        return None
    if list(elementwise.body.operations[0].operands) != list(elementwise.body.arguments)[:2]:
        return None
    source, mean = elementwise.inputs[:2]
    summed = _mean_sum(mean)
    if elementwise.indexing_maps[0] != elementwise.indexing_maps[-1] or summed is None:
        return None
    if summed.source != source or not _reads_own(elementwise, reduced, summed):
        return None
    sums = _image_sum(Reduced(source, reduced.kept_as), reduction.results[0], [])
    if sums is None or _divisor(mean) != sums.extents.summed:
        return None
    return SquaredDeviations(sums, mean)


def _reduced(reduction: ir.Operation) -> Reduced | None:
    """The sum of a tensor of static sizes that is read in any order of its dimensions, each element once."""
    reduced = match_reduced(reduction)
    return reduced if reduced is not None and reduced.source.type.has_static_shape else None


def _scale_of(elementwise: Elementwise, *, rounds: bool = False) -> float | None:
    """The constant that each element is multiplied by or divided by, and if it `rounds` rounded then."""
    computation = only_computation(elementwise, rounds=rounds)
    if computation is None or computation.name not in ("arith.divf", "arith.mulf"):
        return None
    if len(elementwise.inputs) != 2 or elementwise.indexing_maps[0] != elementwise.indexing_maps[1]:
        return None
    element, number = computation.operands
    return scalar_constant(number) if element == elementwise.body.arguments[0] else None


def _scales_or_rounds(elementwise: Elementwise) -> bool:
    """Whether it multiplies by a constant, or divides, and may round the result, or only rounds."""
    if rounding_type(elementwise.operation) is not None or _scale_of(elementwise) is not None:
        return True
    return _scale_of(elementwise, rounds=True) is not None


def _rounds(operation: ir.Operation) -> bool:
    return any(view.operation.name == "arith.truncf" for view in operation.regions[0].blocks[0].operations)


def _image_sum(reduced: Reduced, result: ir.Value, before: Sequence[ir.Operation]) -> ImageSum | None:
    for view in views(reduced.source, widens=True):
        placed = _placed(view, reduced.kept_as)
        if placed is not None:
            extents, sizes, order = placed
            after = _finishing(result)
            last = after[-1].results[0] if after else result
            return ImageSum(view.source, extents, sizes, order, (*before, *after), last)
    return None


def _placed(
    view: StridedView, kept_as: Sequence[int | None]
) -> tuple[SummedExtents, tuple[int, ...], tuple[int, ...]] | None:
    """Extents, sizes and order of the sums of a view, of which all elements of a dense tensor are summed."""
    runs: list[tuple[Run, int | None]] = [
        (run, kept) for runs, kept in zip(view.dimensions, kept_as, strict=True) for run in runs
    ]
    in_memory = sorted(runs, key=lambda each: each[0][1], reverse=True)
    stride = 1
    for (count, distance), _ in reversed(in_memory):
        if distance != stride:
            return None
        stride *= count
    if view.factor != 1 or view.first != 0 or stride != prod(ir.RankedTensorType(view.source.type).shape):
        return None
    extents = _extents([(count, kept is not None) for (count, _), kept in in_memory])
    if extents is None:
        return None
    kept = [(count, kept) for (count, _), kept in in_memory if kept is not None]
    order = sorted(range(len(kept)), key=lambda i: kept[i][1])
    return extents, tuple(count for count, _ in kept), tuple(order)


def _extents(runs: Sequence[tuple[int, bool]]) -> SummedExtents | None:
    """From counts in the order of memory, each of elements that are kept or not; None for longer ones."""
    merged = [
        (is_kept, prod(count for count, _ in group)) for is_kept, group in groupby(runs, key=itemgetter(1))
    ]
    outer = merged.pop(0)[1] if merged and merged[0][0] else 1
    inner = merged.pop()[1] if merged and not merged[-1][0] else 1
    kept = merged.pop()[1] if merged else 1
    rows = merged.pop()[1] if merged else 1
    return None if merged else SummedExtents(outer, rows, kept, inner)


def _finishing(value: ir.Value) -> tuple[ir.Operation, ...]:
    """Operations one after the other, each of which alone reads the one before, and no other tensor."""
    found: list[ir.Operation] = []
    while (user := only_user(value)) is not None:
        elementwise = match_elementwise(user)
        if not isinstance(elementwise, Elementwise) or not _computes_of_one(elementwise, value):
            break
        found.append(user)
        value = elementwise.result
    return tuple(found)


def _computes_of_one(elementwise: Elementwise, value: ir.Value) -> bool:
    return (
        elementwise.inputs[:-1] == (value,)
        and elementwise.indexing_maps[0] == elementwise.indexing_maps[-1]
        and elementwise.is_pure
        and not elementwise.reads_init
        and not captures(elementwise.body)
        and isinstance(elementwise.result.type.element_type, _NUMBERS)
        and all(
            isinstance(result.type, _NUMBERS)
            for view in elementwise.body.operations
            for result in view.operation.results
        )
    )


def _square_root(squares: ir.Operation) -> ir.Value | None:
    """What `squares` are the squares of, in the same order."""
    elementwise = with_body(squares, ["arith.mulf"])
    if elementwise is None or len(set(elementwise.indexing_maps)) != 1:
        return None
    arguments = list(elementwise.body.arguments)
    read = [elementwise.inputs[arguments.index(each)] for each in elementwise.body.operations[0].operands]
    return read[0] if len(set(read)) == 1 else None


def _mean_sum(mean: ir.Value) -> Reduced | None:
    """The sum that a mean is made of."""
    value = broadcast_source(mean, ir.AffineMap.get_identity(mean.type.rank))[0]
    division = defining_operation(value)
    elementwise = None if division is None else with_body(division, ["arith.divf"])
    if elementwise is None or _scale_of(elementwise) is None:
        return None
    reduction = defining_operation(elementwise.inputs[0])
    return None if reduction is None else _reduced(reduction)


def _divisor(mean: ir.Value) -> float | None:
    value = broadcast_source(mean, ir.AffineMap.get_identity(mean.type.rank))[0]
    division = defining_operation(value)
    elementwise = None if division is None else match_elementwise(division)
    return _scale_of(elementwise) if isinstance(elementwise, Elementwise) else None


def _reads_own(subtraction: Elementwise, squares: Reduced, summed: Reduced) -> bool:
    """Whether each element has the mean subtracted that it is part of, and its square is summed like it."""
    _, mean_map = broadcast_source(subtraction.inputs[1], subtraction.indexing_maps[1])
    read = {each.position: place for place, each in enumerate(mean_map.results) if _is_loop(each)}
    shape = ir.RankedTensorType(summed.source.type).shape
    # Where a dimension of one element is doesn't matter.
    return all(
        kept == read.get(dimension) and (kept is None) == (squares.kept_as[dimension] is None)
        for dimension, kept in enumerate(summed.kept_as)
        if shape[dimension] != 1
    )


def _is_loop(expression: ir.AffineExpr) -> bool:
    return isinstance(expression, ir.AffineDimExpr)
