"""Sums over the pixels of images, or of their rows, of sizes that may be unknown."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.elementwise import Elementwise, match_elementwise
from iree.winograd.passes.match.navigation import defining_operation, only_user
from iree.winograd.passes.match.reduced import Reduced, match_reduced, match_summed_before


@dataclass(frozen=True)
class PixelSum:
    """The sums of `image`, channels last, over the last ones of its spatial dimensions."""

    image: ir.Value
    dimensions: int
    """Over how many it is summed."""
    scales: tuple[ir.Operation, ...]
    """What multiplies or divides all sums, each by one number, in order."""
    reductions: tuple[ir.Operation, ...]
    """One after the other."""
    order: ir.AffineMap
    """From an element of the result to the sum that it is, of those in the order of the image."""

    @property
    def result(self) -> ir.Value:
        return self.reductions[-1].results[0]


def match_pixel_sum(reduction: ir.Operation) -> PixelSum | None:
    """The sum over pixels that `reduction` ends: one over all dimensions, or one after the other."""
    reduced = match_reduced(reduction)
    if reduced is None:
        return None
    scales: list[ir.Operation] = []
    reductions = [reduction]
    while (before := match_summed_before(reduced, _is_scale)) is not None:
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


def match_pixel_mean(sums: PixelSum) -> PixelMean | None:
    """What only divides `sums` of all pixels, and is all that reads them."""
    user = only_user(sums.result)
    last = None if user is None else match_elementwise(user)
    if not isinstance(last, Elementwise) or last.inputs[0] != sums.result or not _is_scale(last):
        return None
    divisors = [_divisor(each) for each in (*sums.scales, last.operation)]
    found = tuple(each for each in divisors if each is not None)
    sizes = ir.RankedTensorType(last.result.type).shape
    images_and_channels = [ir.AffineExpr.get_dim(0), ir.AffineExpr.get_dim(1)]
    is_in_order = list(sums.order.results) == images_and_channels and set(sizes[2:]) <= {1}
    return PixelMean(sums, found, last.result) if is_in_order and len(found) == len(divisors) else None


def _divisor(scale: ir.Operation) -> ir.Value | None:
    """The integer, known before it, that an operation divides all sums by; None for another one."""
    body = scale.regions[0].blocks[0]
    *_, last, _ = (view.operation for view in body.operations)
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


def _is_scale(elementwise: Elementwise) -> bool:
    """Whether each element is multiplied or divided by a number, the same for all."""
    arguments = list(elementwise.body.arguments)
    *computed, terminator = (view.operation for view in elementwise.body.operations)
    if len(arguments) != 2 or not computed or len(set(elementwise.indexing_maps)) != 1:
        return False
    *of_number, last = computed
    return (
        elementwise.is_pure
        and last.name in ("arith.divf", "arith.mulf")
        and last.operands[0] == arguments[0]
        and last.operands[1] not in arguments
        and terminator.operands[0] == last.results[0]
        and not any(operand in arguments for each in of_number for operand in each.operands)
    )
