"""Tensors whose elements are those of another one, a fixed distance apart in each of their dimensions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.elementwise import Elementwise, match_elementwise
from iree.winograd.passes.match.groups import reassociation_of
from iree.winograd.passes.match.navigation import KEEPING_ELEMENTS, defining_operation
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.passes.match.slices import match_slice
from iree.winograd.passes.match.values.constants import scalar_constant, uniform_constant
from iree.winograd.passes.match.values.conversions import is_widening, only_computation

Run = tuple[int, int]
"""Elements, and how far apart these are in the source."""
Dimension = tuple[Run, ...]
"""A dimension as runs of runs, the outermost first; of none where it has a single element."""


@dataclass(frozen=True)
class StridedView:
    """`factor` times the elements of `source`, of a dense row-major tensor, from `first` on."""

    source: ir.Value
    first: int
    dimensions: tuple[Dimension, ...]
    factor: float = 1.0


def whole(source: ir.Value) -> StridedView:
    """That of all elements of a tensor of static sizes, in order."""
    shape = list(ir.RankedTensorType(source.type).shape)
    strides = [prod(shape[dimension + 1 :]) for dimension in range(len(shape))]
    return StridedView(source, 0, tuple(_joined([run]) for run in zip(shape, strides, strict=True)))


def views(
    value: ir.Value, *, broadcasts: bool = False, widens: bool = False, rounds: bool = True
) -> Iterator[StridedView]:
    """The views that a tensor of static sizes is, of the source furthest up first, and of itself last.

    With `broadcasts` elements may be those of a smaller source: some dimensions are runs of distance zero.
    If it `widens` they may be those of a source of half precision. Unless it `rounds`, products with a factor
    that the program rounds to half precision are views, too.
    """

    def keeps_elements(operation: ir.Operation) -> bool:
        if _keeps_elements(operation, rounds) or (broadcasts and _broadcast_map(operation) is not None):
            return True
        return widens and is_widening(operation) and not _is_dynamic(operation)

    operations: list[ir.Operation] = []
    while (operation := defining_operation(value)) is not None and keeps_elements(operation):
        operations.insert(0, operation)
        value = operation.operands[0]
    sources = [operation.operands[0] for operation in operations]
    for start, source in enumerate(sources):
        view = _followed(whole(source), operations[start:])
        if view is not None:
            yield view
    yield whole(operations[-1].results[0] if operations else value)


def moved(view: StridedView, operation: ir.Operation) -> StridedView | None:
    """The view that is the result of an operation on a view; None where there is none."""
    if operation.name == "linalg.transpose":
        order = list(operation.attributes["permutation"])
        return replace(view, dimensions=tuple(view.dimensions[source] for source in order))
    if operation.name == "tensor.collapse_shape":
        groups = reassociation_of(operation)
        merged = (_joined([run for d in group for run in view.dimensions[d]]) for group in groups)
        return replace(view, dimensions=tuple(merged))
    if operation.name == "tensor.expand_shape":
        return _expanded(view, operation)
    if operation.name == "tensor.extract_slice":
        return _sliced(view, operation)
    if (broadcast := _broadcast_map(operation)) is not None:
        return _broadcasted(view, broadcast, operation)
    if is_widening(operation):
        return view
    factor = constant_factor(operation, rounds=True)
    return None if factor is None else replace(view, factor=view.factor * factor)


def _followed(view: StridedView, operations: Sequence[ir.Operation]) -> StridedView | None:
    result: StridedView | None = view
    for operation in operations:
        if result is None:
            return None
        result = moved(result, operation)
    return result


def _keeps_elements(operation: ir.Operation, rounds: bool) -> bool:
    keeps = operation.name in KEEPING_ELEMENTS or constant_factor(operation, rounds=not rounds) is not None
    return keeps and not _is_dynamic(operation)


def _is_dynamic(operation: ir.Operation) -> bool:
    return any(map(is_dynamic, ir.RankedTensorType(operation.operands[0].type).shape))


def _broadcast_map(operation: ir.Operation) -> ir.AffineMap | None:
    """Which elements an operation reads that does no more than that, each for some of its result."""
    elementwise = match_elementwise(operation)
    if not isinstance(elementwise, Elementwise) or operation.name == "linalg.transpose":
        return None
    if elementwise.yielded != elementwise.body.arguments[0] or len(elementwise.inputs) != 2:
        return None
    sizes = [
        size
        for value in (elementwise.inputs[0], elementwise.result)
        for size in ir.RankedTensorType(value.type).shape
    ]
    return None if any(map(is_dynamic, sizes)) else elementwise.indexing_maps[0]


def _broadcasted(view: StridedView, read: ir.AffineMap, operation: ir.Operation) -> StridedView | None:
    """None where an element is read whose place isn't that of the result, or the first."""
    sizes = ir.RankedTensorType(operation.results[0].type).shape
    dimensions: list[Dimension] = [_joined([(size, 0)]) for size in sizes]
    for expression, runs in zip(read.results, view.dimensions, strict=True):
        if isinstance(expression, ir.AffineDimExpr):
            dimensions[ir.AffineDimExpr(expression).position] = runs
        elif expression != ir.AffineExpr.get_constant(0):
            return None
    return replace(view, dimensions=tuple(dimensions))


def constant_factor(operation: ir.Operation, *, rounds: bool = False) -> float | None:
    """The constant by which an elementwise operation multiplies its first operand, or divides by its inverse.

    The constant may be a tensor that holds one number, as those of ONNX are. With `rounds` the product may be
    rounded to half precision.
    """
    elementwise = match_elementwise(operation)
    if not isinstance(elementwise, Elementwise) or elementwise.reads_init:
        return None
    if elementwise.indexing_maps[0] != elementwise.indexing_maps[-1]:
        return None
    first = only_computation(elementwise, rounds=rounds)
    if first is None or first.name not in ("arith.mulf", "arith.divf"):
        return None
    element, *others = elementwise.body.arguments
    if element not in first.operands:
        return None
    tensors = dict(zip(others, elementwise.inputs[1:], strict=True))
    factors = [
        uniform_constant(tensors[operand]) if operand in tensors else scalar_constant(operand)
        for operand in first.operands
        if operand != element
    ]
    if not factors or first.name == "arith.mulf":
        return factors[0] if factors else None
    (divisor,) = factors
    return 1 / divisor if first.operands[0] == element and divisor else None


def _expanded(view: StridedView, operation: ir.Operation) -> StridedView | None:
    shape = ir.RankedTensorType(operation.results[0].type).shape
    dimensions: list[Dimension] = []
    for runs, group in zip(view.dimensions, reassociation_of(operation), strict=True):
        rest: Dimension | None = runs
        split: list[Dimension] = []
        for dimension in reversed(group):
            rest, inner = (None, None) if rest is None else _split(rest, shape[dimension])
            if inner is None:
                return None
            split.insert(0, inner)
        dimensions += split
    return replace(view, dimensions=tuple(dimensions))


def _split(runs: Dimension, size: int) -> tuple[Dimension, Dimension] | tuple[None, None]:
    """The innermost `size` elements of a dimension, and before them the runs of these."""
    outer: list[Run] = list(runs)
    inner: list[Run] = []
    while size > 1:
        count, stride = outer.pop()
        if size % count == 0:
            inner.insert(0, (count, stride))
            size //= count
        elif count % size == 0:
            inner.insert(0, (size, stride))
            outer.append((count // size, stride * size))
            size = 1
        else:
            return None, None
    return tuple(outer), tuple(inner)


def _sliced(view: StridedView, operation: ir.Operation) -> StridedView | None:
    """None where a dimension of several runs is cut, or all of one whose number isn't known."""
    part = match_slice(operation)
    if part is None:
        return None
    first, dimensions = view.first, []
    extents = ir.RankedTensorType(operation.operands[0].type).shape
    bounds = zip(view.dimensions, extents, part.offsets, part.sizes, part.strides, strict=True)
    for runs, extent, offset, size, step in bounds:
        if size != extent:
            if len(runs) != 1:
                return None
            ((_, stride),) = runs
            first += offset * stride
            runs = _joined([(size, stride * step)])
        dimensions.append(runs)
    kept = list(ir.RankedTensorType(operation.results[0].type).shape)
    if len(kept) < len(dimensions):
        # Dimensions that the result doesn't have hold one element.
        dimensions = _of_sizes(dimensions, part.sizes, kept)
    return replace(view, first=first, dimensions=tuple(dimensions))


def _of_sizes(dimensions: list[Dimension], sizes: Sequence[int], kept: list[int]) -> list[Dimension]:
    """Those of sizes other than one, and of those of one as many as there are in `kept`, in its order."""
    larger = iter([runs for runs, size in zip(dimensions, sizes, strict=True) if size != 1])
    return [() if size == 1 else next(larger) for size in kept]


def _joined(runs: Sequence[Run]) -> Dimension:
    """Runs that continue each other as one, without those of a single element."""
    joined: list[Run] = []
    for count, stride in runs:
        if count == 1:
            continue
        if joined and joined[-1][1] == count * stride:
            count *= joined.pop()[0]
        joined.append((count, stride))
    return tuple(joined)
