"""Sums over the pixels of images, or of their rows, of sizes that may be unknown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.elementwise import Elementwise, match_elementwise
from iree.winograd.passes.match.navigation import defining_operation, only_user
from iree.winograd.passes.match.normalizations.reduced import Reduced, match_reduced, match_summed_before
from iree.winograd.passes.match.values.conversions import ROUNDING, rounded_type
from iree.winograd.passes.match.values.half_precision import half_type

_ROUNDINGS = [[], [ROUNDING[0]], [*ROUNDING]]
"""None, or to half precision, in its type or in that of what is rounded."""


@dataclass(frozen=True)
class PixelSum:
    """The sums of `image`, channels last, over the last ones of its spatial dimensions."""

    image: ir.Value
    dimensions: int
    """Over how many it is summed."""
    scales: tuple[ir.Operation, ...]
    """What multiplies or divides all sums, each by one number, in order, and may round them."""
    reductions: tuple[ir.Operation, ...]
    """One after the other."""
    order: ir.AffineMap
    """From an element of the result to the sum that it is, of those in the order of the image."""

    @property
    def result(self) -> ir.Value:
        return self.reductions[-1].results[0]


def match_pixel_sum(reduction: ir.Operation, *, rounds: bool = False) -> PixelSum | None:
    """The sum over pixels that `reduction` ends: one over all dimensions, or one after the other.

    With `rounds` means between may be rounded to half precision, if the mean that they are summed for is.
    """
    if not rounds:
        return _pixel_sum(reduction, _is_scale)
    found = _pixel_sum(reduction, lambda each: _is_scale(each, rounds=True))
    if found is None or not any(rounded_half(each) for each in found.scales):
        return found
    mean = match_pixel_mean(found)
    return found if mean is not None and mean.half is not None else _pixel_sum(reduction, _is_scale)


def is_pixel_sum_or_begins_one(reduction: ir.Operation) -> bool:
    """Whether pixels are summed by `reduction`, or by it and the one that follows (`match_pixel_sum`)."""
    if match_pixel_sum(reduction, rounds=True) is not None:
        return True
    scale = only_user(reduction.results[0])
    following = None if scale is None or not scale.results else only_user(scale.results[0])
    found = None if following is None else match_pixel_sum(following, rounds=True)
    return found is not None and reduction in found.reductions


def _pixel_sum(reduction: ir.Operation, is_scale: Callable[[Elementwise], bool]) -> PixelSum | None:
    reduced = match_reduced(reduction)
    if reduced is None:
        return None
    scales: list[ir.Operation] = []
    reductions = [reduction]
    while (before := match_summed_before(reduced, is_scale)) is not None:
        inner_scales, operation, reduced = before
        scales, reductions = [*inner_scales, *scales], [operation, *reductions]
    dimensions = _summed_dimensions(reduced)
    if dimensions is None:
        return None
    rank = ir.RankedTensorType(reduction.results[0].type).rank
    order = [ir.AffineExpr.get_dim(place) for place in reduced.kept_as if place is not None]
    order_map = ir.AffineMap.get(rank, 0, order)
    return PixelSum(reduced.source, dimensions, tuple(scales), tuple(reductions), order_map)


@dataclass(frozen=True)
class PixelMean:
    """Sums of all pixels of images, divided by `divisors`, integers, one after the other: `result`, N x C."""

    sums: PixelSum
    divisors: tuple[ir.Value, ...]
    result: ir.Value
    half: ir.Type | None = None
    """The type of half precision that the result is rounded to, in f32 or not; None where it isn't."""


def match_pixel_mean(sums: PixelSum) -> PixelMean | None:
    """What only divides `sums` of all pixels, and is all that reads them. It may round to half precision."""
    user = only_user(sums.result)
    last = None if user is None else match_elementwise(user)
    if not isinstance(last, Elementwise) or last.inputs[0] != sums.result:
        return None
    if not _is_scale(last, rounds=True):
        return None
    divisors = [_divisor(each) for each in (*sums.scales, last.operation)]
    found = tuple(each for each in divisors if each is not None)
    sizes = ir.RankedTensorType(last.result.type).shape
    images_and_channels = [ir.AffineExpr.get_dim(0), ir.AffineExpr.get_dim(1)]
    is_in_order = list(sums.order.results) == images_and_channels and set(sizes[2:]) <= {1}
    if not is_in_order or len(found) != len(divisors):
        return None
    return PixelMean(sums, found, last.result, rounded_half(last.operation))


def _divisor(scale: ir.Operation) -> ir.Value | None:
    """The integer, known before it, that an operation divides all sums by; None for another one."""
    body = scale.regions[0].blocks[0]
    last = _scaling(body)
    number = defining_operation(last.operands[1])
    if last.name != "arith.divf" or number is None or number.name != "arith.sitofp":
        return None
    (integer,) = number.operands
    defined = integer.owner if isinstance(integer.owner, ir.Block) else integer.owner.operation.block
    return None if defined == body else integer


def _summed_dimensions(reduced: Reduced) -> int | None:
    """How many of the last spatial dimensions are summed, if nothing else is."""
    *kept, channels = reduced.kept_as
    summed = 0
    while kept and kept[-1] is None:
        kept.pop()
        summed += 1
    return summed if summed and kept and channels is not None and None not in kept else None


def rounded_half(scale: ir.Operation) -> ir.Type | None:
    """The type of half precision that what scales sums rounds them to; None where it doesn't."""
    *_, end = (view.operation for view in scale.regions[0].blocks[0].operations)
    (yielded,) = end.operands
    return half_type(yielded) or rounded_type(yielded)


def unrounded(scaled: ir.Value) -> ir.Value:
    """What a scale computes before it rounds that, if it does."""
    while (operation := defining_operation(scaled)) is not None and operation.name in ROUNDING:
        (scaled,) = operation.operands
    return scaled


def _scaling(body: ir.Block) -> ir.Operation:
    """The last operation that isn't a rounding of what was computed before, nor the end."""
    *computed, _ = (view.operation for view in body.operations)
    while len(computed) > 1 and computed[-1].name in ROUNDING:
        computed.pop()
    return computed[-1]


def _is_scale(elementwise: Elementwise, *, rounds: bool = False) -> bool:
    """Whether each element is multiplied or divided by a number, the same for all, and perhaps rounded."""
    arguments = list(elementwise.body.arguments)
    *computed, terminator = (view.operation for view in elementwise.body.operations)
    if len(arguments) != 2 or not computed or len(set(elementwise.indexing_maps)) != 1:
        return False
    last = _scaling(elementwise.body)
    of_number, roundings = computed[: computed.index(last)], computed[computed.index(last) + 1 :]
    results = [last, *roundings]
    return (
        elementwise.is_pure
        and last.name in ("arith.divf", "arith.mulf")
        and last.operands[0] == arguments[0]
        and last.operands[1] not in arguments
        and terminator.operands[0] == results[-1].results[0]
        and [each.name for each in roundings] in (_ROUNDINGS if rounds else _ROUNDINGS[:1])
        and all(after.operands[0] == before.results[0] for before, after in pairwise(results))
        and not any(operand in arguments for each in of_number for operand in each.operands)
    )
