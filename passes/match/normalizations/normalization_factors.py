"""What an image is multiplied by and added to it, of each channel, by the moments of the group it is in."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.elementwise import Elementwise
from iree.winograd.passes.match.navigation import only_user
from iree.winograd.passes.match.normalizations.image_sum import SquaredDeviations
from iree.winograd.passes.match.normalizations.rows import with_body


@dataclass(frozen=True)
class NormalizationFactors:
    """`factors = inverse * weight` and `addends = bias - mean * factors`, of `N x groups x channels`.

    `inverse` is what is computed of a group's squared deviations, `weight` and `bias` have an element for
    each channel of each group. Nothing else reads means and inverses.
    """

    factors: ir.Value
    addends: ir.Value
    weight: ir.Value
    bias: ir.Value


def match_normalization_factors(deviations: SquaredDeviations) -> NormalizationFactors | None:
    """What is made of the moments of groups of neighbouring channels; None for anything else.

    All that reads `factors` but for `addends` is behind these.
    """
    mean, inverse, extents = deviations.mean, deviations.sums.result, deviations.sums.extents
    if extents.kept == 1 or list(deviations.sums.order) != sorted(deviations.sums.order):
        return None
    scaling = _combination(only_user(inverse), "arith.mulf", inverse)
    if scaling is None:
        return None
    (factors, weight), groups = scaling, (extents.outer, extents.kept, extents.inner)
    negative = next(filter(None, (_negative(use.owner.operation) for use in mean.uses)), None)
    if negative is None or len({use.owner.operation for use in mean.uses}) != 2:
        return None
    moved = _combination(only_user(negative), "arith.mulf", factors, negative)
    added = None if moved is None else _combination(only_user(moved[0]), "arith.addf", moved[0])
    if moved is None or added is None:
        return None
    addends, bias = added
    if not all(_has_channels(each, groups) for each in (factors, addends)):
        return None
    if not all(_has_channels(each, (1, *groups[1:])) for each in (weight, bias)):
        return None
    last = addends.owner.operation
    others = {use.owner.operation for use in factors.uses} - {moved[0].owner.operation}
    if any(each.block != last.block or each.is_before_in_block(last) for each in others):
        return None
    return NormalizationFactors(factors, addends, weight, bias)


def _negative(operation: ir.Operation) -> ir.Value | None:
    elementwise = with_body(operation, ["arith.negf"])
    return None if elementwise is None else elementwise.result


def _combination(
    operation: ir.Operation | None, name: str, *values: ir.Value
) -> tuple[ir.Value, ir.Value] | None:
    """The result of an operation on the elements of `values` and of another tensor, and that tensor.

    That is the last of `values` where there are two of them. Dimensions of operands are those of the result,
    or of one element.
    """
    elementwise = None if operation is None else with_body(operation, [name])
    if elementwise is None or len(elementwise.inputs) != 3 or not _in_place(elementwise):
        return None
    read = list(elementwise.inputs[:2])
    if not all(each in read for each in values):
        return None
    others = [each for each in read if each not in values]
    return elementwise.result, (others or [values[-1]])[0]


def _in_place(elementwise: Elementwise) -> bool:
    arguments = list(elementwise.body.arguments)[:2]
    if set(elementwise.body.operations[0].operands) != set(arguments):
        return False
    for source, indexing_map in elementwise.reads:
        if len(indexing_map.results) != indexing_map.n_dims:
            return False
        for place, (size, index) in enumerate(zip(source.type.shape, indexing_map.results, strict=True)):
            if size != 1 and not (isinstance(index, ir.AffineDimExpr) and index.position == place):
                return False
    return True


def _has_channels(value: ir.Value, groups: tuple[int, int, int]) -> bool:
    """Whether a tensor is of so many images, groups and channels of a group, and of nothing else."""
    shape = list(ir.RankedTensorType(value.type).shape)
    sizes = [*shape[:3], *([1] if len(shape) == 2 else [])]
    return len(shape) >= 2 and sizes == list(groups) and all(size == 1 for size in shape[3:])
