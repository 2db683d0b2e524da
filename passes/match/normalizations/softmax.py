"""Softmax of rows or columns, which arrives as two reductions with elementwise operations between them."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.passes.match.elementwise import Elementwise, broadcast_source, match_elementwise
from iree.winograd.passes.match.navigation import defining_operation, only_user
from iree.winograd.passes.match.normalizations.rows import (
    Combined,
    combined_with_reduced,
    is_reduced,
    reduced_dimension,
    with_body,
)
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.passes.match.values.constants import is_zero, scalar_constant


@dataclass(frozen=True)
class Softmax:
    """`exp(x - max(x)) / sum(exp(x - max(x)))` of `source`, f32, along its dimension `dimension`.

    Of nothing but minus infinity that is NaN, or zero where it is `safe`, which torch calls it so.
    """

    source: ir.Value
    dimension: int
    result: ir.Value
    safe: bool = False

    @property
    def shape(self) -> list[int]:
        """Of source and result."""
        return list(ir.RankedTensorType(self.source.type).shape)

    @property
    def length(self) -> int:
        """Elements that share a sum."""
        return self.shape[self.dimension]


def divides(operation: ir.Operation) -> bool:
    """What a softmax has last, or but for a selection, which a rewrite erases with it."""
    if operation.name not in ("linalg.generic", "linalg.div") or len(operation.results) != 1:
        return False
    *_, terminator = operation.regions[0].blocks[0].operations
    last = defining_operation(terminator.operands[0])
    return last is not None and last.name == "arith.divf"


def match_softmax(division: ir.Operation) -> Softmax | None:
    """The softmax that `division` ends, of sizes that but for the first are static.

    That one isn't the dimension along which it is. The result may be that of an operation after the division,
    which reads nothing else of it and makes the softmax a safe one.
    """
    divided = combined_with_reduced(division, ["arith.divf"])
    if divided is None:
        return None
    exponentials, dimension = divided.whole, divided.dimension
    source = _source_of(exponentials, dimension)
    if source is None or not is_reduced(divided.reduced, exponentials, "arith.addf", 0.0, dimension):
        return None
    type_ = ir.RankedTensorType(source.type)
    if str(type_.element_type) != "f32" or any(map(is_dynamic, type_.shape[1:])):
        return None
    if dimension == 0 and type_.is_dynamic_dim(0):
        return None
    softmax = Softmax(source, dimension, division.results[0])
    return _as_safe(softmax) or softmax


def _source_of(exponentials: ir.Value, dimension: int) -> ir.Value | None:
    """What they are of, before the largest along a dimension was subtracted from each; None for others."""
    operation = defining_operation(exponentials)
    if operation is None:
        return None
    differences = combined_with_reduced(operation, ["arith.subf", "math.exp"])
    if differences is None:
        differences = _differences(operation)
    if differences is None or differences.dimension != dimension:
        return None
    source = differences.whole
    return source if is_reduced(differences.reduced, source, "arith.maximumf", -inf, dimension) else None


def _differences(exponential: ir.Operation) -> Combined | None:
    """The subtraction before an operation that computes exponentials alone."""
    elementwise = with_body(exponential, ["math.exp"])
    if elementwise is None or elementwise.indexing_maps[0] != elementwise.indexing_maps[-1]:
        return None
    subtraction = defining_operation(elementwise.inputs[0])
    return None if subtraction is None else combined_with_reduced(subtraction, ["arith.subf"])


def _as_safe(softmax: Softmax) -> Softmax | None:
    """The safe softmax that a selection makes of one, or None.

    As torch writes it where attention may be masked: zeros where all elements are minus infinity.
    """
    selection = only_user(softmax.result)
    elementwise = None if selection is None else match_elementwise(selection)
    if not isinstance(elementwise, Elementwise) or elementwise.reads_init:
        return None
    first, *others = (view.operation for view in elementwise.body.operations)
    if first.name != "arith.select" or [list(each.operands) for each in others] != [list(first.results)]:
        return None
    (condition, condition_map), (zeros, zeros_map), (otherwise, identity) = (
        _read(elementwise, operand) for operand in first.operands
    )
    if zeros_map is not None:
        zeros, _ = broadcast_source(zeros, zeros_map)
    if condition_map is None or not is_zero(zeros):
        return None
    if otherwise != softmax.result or identity != elementwise.indexing_maps[-1]:
        return None
    reduced, reduced_map = broadcast_source(condition, condition_map)
    if reduced_dimension(reduced_map) != softmax.dimension or not _is_of_minus_infinity(reduced, softmax):
        return None
    return Softmax(softmax.source, softmax.dimension, elementwise.result, safe=True)


def _read(elementwise: Elementwise, element: ir.Value) -> tuple[ir.Value, ir.AffineMap | None]:
    """The input that `element` of a body is of, with its map; an element from outside is its own."""
    for argument, value, map_ in zip(
        elementwise.body.arguments, elementwise.inputs, elementwise.indexing_maps, strict=True
    ):
        if argument == element:
            return value, map_
    return element, None


def _is_of_minus_infinity(reduced: ir.Value, softmax: Softmax) -> bool:
    """Whether `reduced` tells where all of the softmax's source along its dimension is minus infinity."""
    reduction = defining_operation(reduced)
    if reduction is None or reduction.name != "linalg.generic":
        return False
    compared = reduction.operands[0]
    comparison = defining_operation(compared)
    elementwise = None if comparison is None else with_body(comparison, ["arith.cmpf"])
    if elementwise is None or not is_reduced(reduced, compared, "arith.andi", True, softmax.dimension):
        return False
    first = elementwise.body.operations[0]
    (source, source_map), (number, _) = (_read(elementwise, operand) for operand in first.operands)
    is_equality = first.attributes["predicate"].value == arith.CmpFPredicate.OEQ
    same_source = source == softmax.source and source_map == elementwise.indexing_maps[-1]
    return is_equality and same_source and scalar_constant(number) == -inf
