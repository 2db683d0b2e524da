"""Round to integers by sums what is kept within small bounds afterwards, as numbers that become bytes are."""

from __future__ import annotations

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import walk
from iree.winograd.passes.match.values.bounds import match_bound
from iree.winograd.passes.match.values.constants import scalar_constant
from iree.winograd.passes.match.values.number_range import number_range

_DISTANCE = float(3 << 22)
"""Numbers of f32 near it are integers: adding it to a number of up to 2^22 rounds that, ties to even."""
_LARGEST = float(1 << 20)
"""Of bounds and offsets together behind such a rounding, which gives more for all numbers beyond 2^22."""


@register_pass("winograd-round-by-sums")
class RoundBySums:
    """Round to integers by sums what is kept within small bounds afterwards, as bytes are.

    IREE 3.13 makes some thirty operations of `math.roundeven`, with which quantised models round what is
    between layers, where a sum and a difference do. Those round wrongly beyond 2^22, but give more than 2^22
    there, which is none of the bounds.

        %r = math.roundeven %x : f32
        %a = arith.maximumf %r, %least : f32
        %b = arith.minimumf %a, %most : f32
      becomes
        %sum = arith.addf %x, %distance : f32
        %r = arith.subf %sum, %distance : f32
        %a = arith.maximumf %r, %least : f32
        %b = arith.minimumf %a, %most : f32

    Scales and offsets are folded into filters and biases before: this one would cost all digits there.
    """

    def run(self, module: ir.Operation) -> None:
        roundings = [each for each in walk(module) if each.name == "math.roundeven"]
        rewrite_each("rounding", roundings, _round_by_sums)


def _round_by_sums(rounding: ir.Operation) -> None:
    (number,), (result,) = rounding.operands, rounding.results
    if not isinstance(result.type, ir.F32Type) or not _becomes_small(result):
        return
    with rounding.location, ir.InsertionPoint(rounding):
        distance = arith.constant(result.type, _DISTANCE)
        rounded = arith.subf(arith.addf(number, distance), distance)
    result.replace_all_uses_with(rounded)
    rounding.erase()


def _becomes_small(number: ir.Value, moved: float = 0.0) -> bool:
    """Whether all that reads a number, `moved` so far at most, adds small constants and keeps it small."""
    least, most = number_range(number)
    if max(-least, most) + moved <= _LARGEST:
        return True
    users = {use.owner.operation for use in number.uses}
    return bool(users) and all(_makes_small(user, number, moved) for user in users)


def _makes_small(user: ir.Operation, number: ir.Value, moved: float) -> bool:
    if user.name == "arith.cmpf":
        # It is part of a bound.
        selections = {use.owner.operation for use in user.results[0].uses}
        return all(_bounds(each, number) for each in selections)
    if _bounds(user, number):
        return _becomes_small(user.results[0], moved)
    if user.name != "arith.addf":
        return False
    offsets = [abs(each) for each in map(scalar_constant, user.operands) if each is not None]
    return bool(offsets) and _becomes_small(user.results[0], moved + max(offsets))


def _bounds(operation: ir.Operation, number: ir.Value) -> bool:
    bound = match_bound(operation)
    return bound is not None and bound.number == number
