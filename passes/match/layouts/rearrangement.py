"""Reshapes, transpositions, slices, rotations and repetitions in a row: an order of a tensor's elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.elementwise import Elementwise, match_elementwise
from iree.winograd.passes.match.layouts.places import DigitSum, Places, places_of
from iree.winograd.passes.match.navigation import KEEPING_ELEMENTS, defining_operation
from iree.winograd.passes.match.slices import match_slice

MOVES = ("linalg.transpose", "tensor.concat")
"""Operations of a rearrangement that move elements, the last of which is `result`."""
REARRANGING = (*KEEPING_ELEMENTS, "tensor.concat")

Indices = tuple[DigitSum, ...]


@dataclass(frozen=True)
class Rearrangement:
    """A tensor whose elements are those of `source`, or some of them, in another order."""

    source: ir.Value
    places: Places
    """Of the elements of `result` in `source`."""
    result: ir.Value
    operations: tuple[ir.Operation, ...]
    """What makes `result` of `source`, the last one first."""

    @property
    def repeats(self) -> bool:
        """Whether it has elements more often than `source` has."""
        elements: int = prod(ir.RankedTensorType(self.source.type).shape)
        return self.places.elements > elements

    @property
    def moves(self) -> int:
        """How often elements are copied, unless that is done at once: a rotation copies both of its parts."""
        return sum(MOVES.index(each.name) + 1 for each in self.operations if each.name in MOVES)


@dataclass(frozen=True)
class _Step:
    """What a tensor is made of, and at which of its indices."""

    source: ir.Value
    indices: Indices
    operations: tuple[ir.Operation, ...]


def match_rearrangement(result: ir.Value) -> Rearrangement | None:
    """What `result`, of static sizes, is made of: the first tensor that anything else reads, too.

    None where nothing rearranges it.
    """
    if not ir.RankedTensorType(result.type).has_static_shape:
        return None
    shape = tuple(ir.RankedTensorType(result.type).shape)
    value, indices = result, places_of(shape)
    operations: list[ir.Operation] = []
    while (step := _step(value, indices)) is not None:
        users = {use.owner.operation for use in value.uses}
        if operations and not users <= set(operations):
            break
        value, indices = step.source, step.indices
        operations += step.operations
    if not operations:
        return None
    places = Places.of(prod(shape), indices, ir.RankedTensorType(value.type).shape)
    return Rearrangement(value, places, result, tuple(operations))


def _step(value: ir.Value, indices: Indices) -> _Step | None:
    """What `value` is made of by one operation, at `indices` of it; None for a source."""
    operation = defining_operation(value)
    if operation is None:
        return None
    if (repeated := match_repetition(operation)) is not None:
        source, dimensions = repeated
        return _Step(source, tuple(indices[dimension] for dimension in dimensions), (operation,))
    if operation.name not in REARRANGING:
        return None
    source = operation.operands[0]
    if not ir.RankedTensorType(source.type).has_static_shape:
        return None
    if operation.name == "tensor.concat":
        return _rotation(operation, indices)
    if operation.name == "linalg.transpose":
        permutation = list(operation.attributes["permutation"])
        read = tuple(indices[permutation.index(dimension)] for dimension in range(len(permutation)))
    elif operation.name == "tensor.extract_slice":
        part = match_slice(operation)
        if part is None or len(part.sizes) != len(indices):
            return None
        bounds = zip(indices, part.strides, part.offsets, strict=True)
        read = tuple(index.times(stride) + DigitSum((), offset) for index, stride, offset in bounds)
    else:
        read = _reshaped(operation, indices)
    return _Step(source, read, (operation,))


def match_repetition(operation: ir.Operation) -> tuple[ir.Value, tuple[int, ...]] | None:
    """What an operation has the elements of, each several times, and the dimensions that these have in it."""
    elementwise = match_elementwise(operation)
    if not isinstance(elementwise, Elementwise) or len(elementwise.reads) != 1:
        return None
    ((source, indexing_map),) = elementwise.reads
    read = [each.position for each in indexing_map.results if isinstance(each, ir.AffineDimExpr)]
    (*computed, end) = elementwise.body.operations
    is_copy = not computed and end.operands[0] == elementwise.body.arguments[0]
    if not is_copy or read != sorted(set(read)) or len(read) != source.type.rank:
        return None
    types = [ir.RankedTensorType(each.type) for each in (source, elementwise.result)]
    if len(read) == types[1].rank or not all(each.has_static_shape for each in types):
        return None
    return source, tuple(read)


def _reshaped(reshape: ir.Operation, indices: Indices) -> Indices:
    """Indices before a reshape, from those behind it."""
    groups = [[each.value for each in group] for group in reshape.attributes["reassociation"]]
    if reshape.name == "tensor.expand_shape":
        shape = ir.RankedTensorType(reshape.results[0].type).shape
        return tuple(
            _joined([indices[each] for each in group], [shape[each] for each in group]) for group in groups
        )
    shape = ir.RankedTensorType(reshape.operands[0].type).shape
    read: list[DigitSum] = []
    for index, group in zip(indices, groups, strict=True):
        divided: list[DigitSum] = []
        for dimension in reversed(group[1:]):
            index, remainder = index.divided(shape[dimension])
            divided.insert(0, remainder)
        read += [index, *divided]
    return tuple(read)


def _joined(indices: Sequence[DigitSum], sizes: Sequence[int]) -> DigitSum:
    """The row-major number of indices within `sizes`."""
    number = DigitSum((), 0)
    for index, size in zip(indices, sizes, strict=True):
        number = number.times(size) + index
    return number


def _rotation(concatenation: ir.Operation, indices: Indices) -> _Step | None:
    """A concatenation of the end and the beginning of what it is made of; None for others."""
    if len(concatenation.operands) != 2:
        return None
    dimension = int(ir.IntegerAttr(concatenation.attributes["dim"]).value)
    slices = [defining_operation(part) for part in concatenation.operands]
    if any(each is None or each.name != "tensor.extract_slice" for each in slices):
        return None
    end, beginning = (each for each in slices if each is not None)
    source = end.operands[0]
    parts = match_slice(end), match_slice(beginning)
    shape = ir.RankedTensorType(source.type).shape
    if beginning.operands[0] != source or ir.RankedTensorType(concatenation.results[0].type).shape != shape:
        return None
    if any(part is None or set(part.strides) != {1} for part in parts):
        return None
    distances = [part.offsets for part in parts if part is not None]
    distance = distances[0][dimension]
    others = (offset for offsets in distances for d, offset in enumerate(offsets) if d != dimension)
    if distances[1][dimension] != 0 or distance == 0 or any(others):
        return None
    if ir.RankedTensorType(beginning.results[0].type).shape[dimension] != distance:
        return None
    moved = indices[dimension].shifted(distance, shape[dimension])
    read = (*indices[:dimension], moved, *indices[dimension + 1 :])
    if any(len(list(part.uses)) != 1 for part in concatenation.operands):
        return None
    return _Step(source, read, (concatenation, end, beginning))
