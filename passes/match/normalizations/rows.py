"""Operations on the rows of a tensor, along one of its dimensions: reductions, and what combines both."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from iree.winograd.dialect.bindings import ir, linalg_structure
from iree.winograd.passes.match.elementwise import Elementwise, broadcast_source, match_elementwise
from iree.winograd.passes.match.navigation import defining_operation


def combined_with_rows(operation: ir.Operation, body: list[str]) -> tuple[ir.Value, ir.Value] | None:
    """Both operands of an elementwise operation: a tensor, and one with an element for each row of it.

    Rows lie along the last dimension. The first operation of `body` combines them, in this order.
    """
    combined = combined_with_reduced(operation, body)
    if combined is None or combined.dimension != ir.RankedTensorType(combined.whole.type).rank - 1:
        return None
    return combined.whole, combined.reduced


@dataclass(frozen=True)
class Combined:
    """A tensor, and one without `dimension`, each element of which belongs to all of `whole` along it."""

    whole: ir.Value
    reduced: ir.Value
    dimension: int


def combined_with_reduced(operation: ir.Operation, body: list[str]) -> Combined | None:
    """Both operands of an elementwise operation, combined by the first operation of `body` in this order."""
    elementwise = with_body(operation, body)
    if elementwise is None or len(elementwise.inputs) != 3:
        return None
    first = elementwise.body.operations[0]
    if list(first.operands) != list(elementwise.body.arguments)[:2]:
        return None
    whole, of_reduced, identity = elementwise.indexing_maps
    reduced, reduced_map = broadcast_source(elementwise.inputs[1], of_reduced)
    dimension = reduced_dimension(reduced_map)
    if whole != identity or dimension is None:
        return None
    return Combined(elementwise.inputs[0], _with_units(reduced), dimension)


def row_values(value: ir.Value) -> ir.Value:
    """The tensor that holds them, before dimensions of one element were added to it, or left out."""
    if not isinstance(value.type, ir.RankedTensorType):
        return value
    return _with_units(broadcast_source(value, ir.AffineMap.get_identity(value.type.rank))[0])


def _with_units(value: ir.Value) -> ir.Value:
    """The tensor that `value` is without some dimensions of one element."""
    operation = defining_operation(value)
    if operation is None or operation.name != "tensor.collapse_shape":
        return value
    source = operation.operands[0]
    kept, before = ([size for size in each.type.shape if size != 1] for each in (value, source))
    # Neighbours that are merged leave another list of sizes.
    return source if kept == before else value


def with_body(operation: ir.Operation, names: list[str]) -> Elementwise | None:
    """An elementwise operation that applies those of `names` one after the other."""
    elementwise = match_elementwise(operation)
    if not isinstance(elementwise, Elementwise):
        return None
    views = list(elementwise.body.operations)
    applied = [view.operation.name for view in views] == [*names, "linalg.yield"]
    in_turn = all(list(after.operands) == list(before.results) for before, after in pairwise(views))
    return elementwise if applied and in_turn else None


def is_reduced(
    value: ir.Value, source: ir.Value, name: str, initial: float | bool, dimension: int | None = None
) -> bool:
    """Whether `value` is `source`, reduced by the operation of this name from `initial` on.

    Along `dimension`, or its last one.
    """
    operation = defining_operation(value)
    if operation is None or operation.name != "linalg.generic":
        return False
    number = ir.OpResult(value).result_number
    maps = [ir.AffineMapAttr(each).value for each in linalg_structure.get_indexing_maps(operation) or []]
    inputs = len(operation.operands) - len(operation.results)
    rank = maps[0].n_dims
    if inputs != 1 or not maps[0].is_permutation:
        return False
    kept = reduced_dimension(_by_dimensions_of(maps[0], maps[1 + number]))
    if kept != (rank - 1 if dimension is None else dimension):
        return False
    block = operation.regions[0].blocks[0]
    *_, terminator = block.operations
    combination = defining_operation(terminator.operands[number])
    if combination is None or combination.name != name:
        return False
    if set(combination.operands) != {block.arguments[0], block.arguments[1 + number]}:
        return False
    fill = defining_operation(operation.operands[1 + number])
    if fill is None or fill.name != "linalg.fill" or not _is_scalar(fill.operands[0], initial):
        return False
    return bool(operation.operands[0] == source)


def _is_scalar(value: ir.Value, number: float | bool) -> bool:
    """Whether `value` is a constant, a number or a truth value, that is `number`."""
    operation = defining_operation(value)
    if operation is None or operation.name != "arith.constant":
        return False
    attribute = operation.attributes["value"]
    return isinstance(attribute, ir.FloatAttr | ir.BoolAttr) and bool(attribute.value == number)


def reduced_dimension(map_: ir.AffineMap) -> int | None:
    """The one dimension that `map_` doesn't tell apart, where it has all others in order; None for others.

    It may read dimensions of one element between them.
    """
    dimensions: list[ir.AffineExpr] = [ir.AffineExpr.get_dim(i) for i in range(map_.n_dims)]
    zero = ir.AffineExpr.get_constant(0)
    results = [each for each in map_.results if each != zero]
    for i in range(map_.n_dims):
        if results == [*dimensions[:i], *dimensions[i + 1 :]]:
            return i
    return None


def _by_dimensions_of(whole: ir.AffineMap, other: ir.AffineMap) -> ir.AffineMap:
    """A map of loops as one of the dimensions of a tensor that these loops read by `whole`, a permutation."""
    loops = [ir.AffineDimExpr(each).position for each in whole.results]
    dimensions = [ir.AffineExpr.get_dim(loops.index(loop)) for loop in range(whole.n_dims)]
    return ir.AffineMap.get(
        whole.n_dims,
        0,
        [
            dimensions[ir.AffineDimExpr(each).position] if isinstance(each, ir.AffineDimExpr) else each
            for each in other.results
        ],
    )
