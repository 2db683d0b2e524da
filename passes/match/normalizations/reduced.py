"""Sums along dimensions of a tensor, one after the other, with what scales all of them between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.elementwise import (
    Elementwise,
    captures,
    is_arithmetic,
    match_elementwise,
)
from iree.winograd.passes.match.navigation import defining_operation, only_user
from iree.winograd.passes.match.reductions import generic_maps, is_reduction, reduced_loops
from iree.winograd.passes.match.values.constants import is_zero


@dataclass(frozen=True)
class Reduced:
    """Sums of a tensor of f32, from zero on, over some of its dimensions."""

    source: ir.Value
    kept_as: tuple[int | None, ...]
    """For each of its dimensions that of the result that it is; None if it is summed."""


def match_reduced(reduction: ir.Operation) -> Reduced | None:
    """The sum of a tensor that is read in any order of its dimensions, each element once."""
    if not is_reduction(reduction) or len(reduction.operands) != 2 or len(reduction.results) != 1:
        return None
    source, init = reduction.operands
    if not all(isinstance(each.type, ir.RankedTensorType) for each in (source, init)):
        return None
    if not isinstance(source.type.element_type, ir.F32Type):
        return None
    source_map, result_map = generic_maps(reduction)
    if not source_map.is_permutation or not is_zero(init) or not adds(reduction.regions[0].blocks[0]):
        return None
    kept = {
        each.position: i for i, each in enumerate(result_map.results) if isinstance(each, ir.AffineDimExpr)
    }
    summed = reduced_loops(reduction)
    if set(kept) & set(summed) or len(kept) + len(summed) != len(list(source_map.results)):
        return None
    return Reduced(source, tuple(kept.get(each.position) for each in source_map.results))


def match_summed_before(
    outer: Reduced, is_scale: Callable[[Elementwise], bool]
) -> tuple[list[ir.Operation], ir.Operation, Reduced] | None:
    """What scales the sums that `outer` sums, the reduction that has these, and both as one sum over all.

    None where `outer` sums something else, or where others read what lies between.
    """
    scales: list[ir.Operation] = []
    value = outer.source
    while (operation := defining_operation(value)) is not None and only_user(value) is not None:
        if is_reduction(operation):
            inner = match_reduced(operation)
            if inner is None:
                return None
            kept = tuple(None if each is None else outer.kept_as[each] for each in inner.kept_as)
            return scales, operation, Reduced(inner.source, kept)
        elementwise = match_elementwise(operation)
        if not isinstance(elementwise, Elementwise) or not is_scale(elementwise):
            return None
        scales.insert(0, operation)
        value = elementwise.inputs[0]
    return None


def adds(body: ir.Block) -> bool:
    """Whether the `body` of a reduction adds an element to those before."""
    names = [view.operation.name for view in body.operations]
    if names != ["arith.addf", "linalg.yield"]:
        return False
    total, end = (view.operation for view in body.operations)
    return set(total.operands) == set(body.arguments) and end.operands[0] == total.results[0]


def adds_computed(body: ir.Block) -> bool:
    """Whether the `body` of a reduction adds, to those before, what it computes of an element alone."""
    *_, total, end = (view.operation for view in body.operations)
    *elements, before = body.arguments
    return (
        len(elements) == 1
        and is_arithmetic(body)
        and not captures(body)
        and total.name == "arith.addf"
        and end.operands[0] == total.results[0]
        and len(list(before.uses)) == 1
        and before in list(total.operands)
    )
