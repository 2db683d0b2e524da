"""Softmax of rows, which arrives as two reductions with elementwise operations between them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import inf

from iree.winograd.dialect.bindings import ir, linalg_structure
from iree.winograd.passes.match.constants import scalar_constant
from iree.winograd.passes.match.elementwise import Elementwise, broadcast_source, match_elementwise
from iree.winograd.passes.match.navigation import defining_operation
from iree.winograd.passes.match.sizes import is_dynamic


@dataclass(frozen=True)
class Softmax:
    """`exp(x - max(x)) / sum(exp(x - max(x)))` of the rows of `source`, f32, along its last dimension."""

    source: ir.Value
    result: ir.Value


def match_softmax(division: ir.Operation) -> Softmax | None:
    """The softmax whose last operation `division` is, of sizes that but for the first are static."""
    divided = _combined_with_rows(division, ["arith.divf"])
    if divided is None:
        return None
    exponentials, sums = divided
    source = _source_of(exponentials)
    if source is None or not _is_reduced(sums, exponentials, "arith.addf", 0.0):
        return None
    type_ = ir.RankedTensorType(source.type)
    if str(type_.element_type) != "f32" or any(map(is_dynamic, type_.shape[1:])):
        return None
    return Softmax(source, division.results[0])


def _source_of(exponentials: ir.Value) -> ir.Value | None:
    """What they are of, before the largest element of a row was subtracted from each; None for others."""
    operation = defining_operation(exponentials)
    if operation is None:
        return None
    differences = _combined_with_rows(operation, ["arith.subf", "math.exp"])
    if differences is None:
        elementwise = _with_body(operation, ["math.exp"])
        if elementwise is None or elementwise.indexing_maps[0] != elementwise.indexing_maps[-1]:
            return None
        subtraction = defining_operation(elementwise.inputs[0])
        differences = None if subtraction is None else _combined_with_rows(subtraction, ["arith.subf"])
    if differences is None:
        return None
    source, largest = differences
    return source if _is_reduced(largest, source, "arith.maximumf", -inf) else None


def _combined_with_rows(operation: ir.Operation, body: list[str]) -> tuple[ir.Value, ir.Value] | None:
    """Both operands of an elementwise operation: a tensor, and one with an element for each row of it.

    The first operation of `body` combines them, in this order.
    """
    elementwise = _with_body(operation, body)
    if elementwise is None or len(elementwise.inputs) != 3:
        return None
    first = elementwise.body.operations[0]
    if list(first.operands) != list(elementwise.body.arguments)[:2]:
        return None
    whole, of_rows, identity = elementwise.indexing_maps
    rows, rows_map = broadcast_source(elementwise.inputs[1], of_rows)
    if whole != identity or not _has_rows(rows_map):
        return None
    return elementwise.inputs[0], rows


def _with_body(operation: ir.Operation, names: list[str]) -> Elementwise | None:
    """An elementwise operation that applies those of `names` one after the other."""
    elementwise = match_elementwise(operation)
    if not isinstance(elementwise, Elementwise):
        return None
    views = list(elementwise.body.operations)
    applied = [view.operation.name for view in views] == [*names, "linalg.yield"]
    in_turn = all(list(after.operands) == list(before.results) for before, after in pairwise(views))
    return elementwise if applied and in_turn else None


def _is_reduced(value: ir.Value, source: ir.Value, name: str, initial: float) -> bool:
    """Whether `value` is the rows of `source`, reduced by the operation of this name from `initial` on."""
    operation = defining_operation(value)
    if operation is None or operation.name != "linalg.generic":
        return False
    number = ir.OpResult(value).result_number
    maps = [ir.AffineMapAttr(each).value for each in linalg_structure.get_indexing_maps(operation) or []]
    inputs = len(operation.operands) - len(operation.results)
    rank = maps[0].n_dims
    if inputs != 1 or maps[0] != ir.AffineMap.get_identity(rank) or not _has_rows(maps[1 + number]):
        return False
    block = operation.regions[0].blocks[0]
    *_, terminator = block.operations
    combination = defining_operation(terminator.operands[number])
    if combination is None or combination.name != name:
        return False
    if set(combination.operands) != {block.arguments[0], block.arguments[1 + number]}:
        return False
    fill = defining_operation(operation.operands[1 + number])
    if fill is None or fill.name != "linalg.fill" or scalar_constant(fill.operands[0]) != initial:
        return False
    return bool(operation.operands[0] == source)


def _has_rows(map_: ir.AffineMap) -> bool:
    """Whether `map_` tells apart all but the last of its dimensions, in order."""
    dimensions: list[ir.AffineExpr] = [ir.AffineExpr.get_dim(i) for i in range(map_.n_dims - 1)]
    results = list(map_.results)
    return results in (dimensions, [*dimensions, ir.AffineExpr.get_constant(0)])
