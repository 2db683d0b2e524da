"""Keep a number within one pair of bounds in place of several, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import inf
from typing import TypeAlias

import numpy as np
from iree.winograd.dialect import ops
from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import defining_operation, transforms, walk
from iree.winograd.passes.match.values.bounds import Bound, match_bound
from iree.winograd.passes.match.values.constants import scalar_constant
from iree.winograd.passes.match.values.conversions import holds
from iree.winograd.passes.match.values.number_range import is_integral
from iree.winograd.passes.rewrite.erasure import erase_if_unused

_EXACT = float(1 << 22)
"""Integers, bounds and offsets up to it give others whose sums and differences f32 holds."""

_Function: TypeAlias = Callable[[np.float32], np.float32]
_ROUNDINGS: dict[str, _Function] = {
    "math.ceil": np.ceil,
    "math.floor": np.floor,
    "math.roundeven": np.rint,
    "math.trunc": np.trunc,
}


@register_pass("winograd-merge-bounds")
class MergeBounds:
    """Keep a number within one pair of bounds in place of several, one after the other.

    A quantised model keeps what it scales and rounds within the bytes that there are, behind an activation
    that bounds it as well. Where all that lies between two bounds never falls as a number grows, a bound may
    come behind it: it is what becomes of that bound. Then the first bounds are merged with the last, and an
    offset that rounded numbers get before and lose afterwards goes, too. A NaN becomes what it did. What is
    between bounds and a convolution's output then is a scale, which `winograd-fold-scale` takes.

        %a = arith.maximumf %x, 0 : f32
        %b = arith.minimumf %a, 6 : f32
        %c = arith.divf %b, 0.03 : f32
        %d = math.roundeven %c : f32
        %e = arith.addf %d, 10 : f32
        %f = arith.maximumf %e, 0 : f32
        %g = arith.minimumf %f, 255 : f32
        %h = arith.subf %g, 10 : f32
      becomes
        %c = arith.divf %x, 0.03 : f32
        %d = math.roundeven %c : f32
        %f = arith.maximumf %d, 0 : f32
        %g = arith.minimumf %f, 200 : f32

    A number that is rounded to half precision, and then bounded by numbers of that type, is bounded before it
    is rounded, which gives the same: of small numbers rounding takes fewer operations.

        %h = arith.truncf %x : f32 to bf16
        %w = arith.extf %h : bf16 to f32
        %a = arith.maximumf %w, 0 : f32
      becomes
        %b = arith.maximumf %x, 0 : f32
        %h = arith.truncf %b : f32 to bf16
        %a = arith.extf %h : bf16 to f32

    The sign of a zero may be another one. It is for programs with convolutions that were taken.
    """

    def run(self, module: ir.Operation) -> None:
        outputs = transforms(module, ops.OutputTransformOp)
        if not outputs:
            return
        generics = [each for each in walk(module) if each.name == "linalg.generic"]
        bodies = [*generics, *(output.operation for output in outputs)]
        rewrite_each("operation", bodies, _merge_in_body)


@dataclass(frozen=True)
class _Step:
    """An operation of one number and a constant that never gives less for a larger number."""

    number: ir.Value
    operation: ir.Operation
    function: _Function
    offset: float | None = None
    """What it adds, if that is what it does."""


@dataclass(frozen=True)
class _Limits:
    """The bounds of a number, and what a NaN becomes, if it stays none."""

    low: float = -inf
    high: float = inf
    of_nan: float | None = None

    def bounded(self, bound: Bound) -> _Limits:
        of_nan = self.of_nan
        if of_nan is not None:
            of_nan = bound.extremum(of_nan, bound.limit)
        elif not bound.keeps_nan:
            of_nan = bound.limit
        return _Limits(bound.extremum(self.low, bound.limit), bound.extremum(self.high, bound.limit), of_nan)

    def after(self, function: _Function) -> _Limits:
        """Those of what `function` makes of the number."""

        def moved(number: float) -> float:
            with np.errstate(all="ignore"):
                return float(function(np.float32(number)))

        return _Limits(moved(self.low), moved(self.high), None if self.of_nan is None else moved(self.of_nan))

    @property
    def count(self) -> int:
        return (self.low > -inf) + (self.high < inf)

    @property
    def is_expressible(self) -> bool:
        """Whether two operations give what a NaN becomes."""
        return self.of_nan is None or (self.of_nan in (self.low, self.high) and abs(self.of_nan) < inf)

    def build(self, number: ir.Value) -> ir.Value:
        """Build the bounded number: what a NaN becomes first."""
        sides = [(self.low, arith.maximumf, arith.CmpFPredicate.OGT)]
        sides.append((self.high, arith.minimumf, arith.CmpFPredicate.OLT))
        if self.of_nan == self.high:
            sides.reverse()
        is_nan = self.of_nan is None
        for limit, extremum, predicate in sides:
            if abs(limit) == inf:
                continue
            constant = arith.constant(number.type, limit)
            if is_nan:
                number = extremum(number, constant)
            else:
                number = arith.select(arith.cmpf(predicate, number, constant), number, constant)
                is_nan = True
        return number


@dataclass(frozen=True)
class _Chain:
    """Steps and bounds of a number, each of the one before, which nothing else reads."""

    source: ir.Value
    result: ir.Value
    steps: tuple[_Step, ...] = ()
    limits: _Limits = field(default_factory=_Limits)
    operations: tuple[ir.Operation, ...] = ()
    """All of them, the first one first, comparisons not counted."""

    @property
    def count(self) -> int:
        """Of operations that take its place."""
        return len(self.steps) + self.limits.count


def _merge_in_body(operation: ir.Operation) -> None:
    _bound_before_rounding(operation.regions[0].blocks[0])
    # The last chain first: another one's result may be its source.
    for chain in map(_without_offset, list(_chains(operation.regions[0].blocks[0]))):
        if chain.count < len(chain.operations) and chain.limits.is_expressible:
            _rebuild(chain)


def _bound_before_rounding(block: ir.Block) -> None:
    """Have numbers that are bounded after they were rounded to half precision be bounded before."""
    for operation in [view.operation for view in block.operations]:
        bound = match_bound(operation)
        widening = None if bound is None else defining_operation(bound.number)
        if bound is None or widening is None or widening.name != "arith.extf":
            continue
        rounding = defining_operation(widening.operands[0])
        if rounding is None or rounding.name != "arith.truncf" or len(list(rounding.results[0].uses)) != 1:
            continue
        if {use.owner.operation for use in widening.results[0].uses} != set(bound.operations):
            continue
        number, half = rounding.operands[0], rounding.results[0].type
        if number.type == bound.number.type and holds(half, np.array([bound.limit], np.float32)):
            _exchange(bound, number, half)


def _exchange(bound: Bound, number: ir.Value, half: ir.Type) -> None:
    """Bound a number, then round it, in place of the other way round."""
    last = bound.operations[-1]
    rounded = bound.number
    with last.location, ir.InsertionPoint.after(last):
        widened = arith.extf(number.type, arith.truncf(half, last.results[0]))
    for operation in bound.operations:
        for position, operand in enumerate(list(operation.operands)):
            if operand == rounded:
                operation.operands[position] = number
    narrowing = widened.owner.operation.operands[0].owner.operation
    last.results[0].replace_all_uses_except(widened, [narrowing])
    erase_if_unused([rounded.owner.operation])


def _chains(block: ir.Block) -> Iterator[_Chain]:
    """All of a block, the last one first."""
    known: set[ir.Operation] = set()
    for operation in reversed([view.operation for view in block.operations]):
        if operation in known or match_bound(operation) is None:
            continue
        chain = _match_chain(operation)
        known |= set(chain.operations)
        yield chain


def _match_chain(last: ir.Operation) -> _Chain:
    """The chain that ends with a bound."""
    links = list(_links(last))
    links.reverse()
    chain = _Chain(links[0].number, last.results[0])
    for link in links:
        if isinstance(link, Bound):
            operation = link.operations[-1]
            chain = replace(chain, limits=chain.limits.bounded(link))
        else:
            operation = link.operation
            chain = replace(chain, steps=(*chain.steps, link), limits=chain.limits.after(link.function))
        chain = replace(chain, operations=(*chain.operations, operation))
    return chain


def _links(last: ir.Operation) -> Iterator[_Step | Bound]:
    """Those of a chain, the last one first."""
    operation: ir.Operation | None = last
    while operation is not None and (link := match_bound(operation) or _match_step(operation)) is not None:
        if not isinstance(link.number.type, ir.F32Type):
            return
        yield link
        own = set(link.operations) if isinstance(link, Bound) else {link.operation}
        operation = defining_operation(link.number)
        if operation is None or operation.block != last.block:
            return
        if {use.owner.operation for use in link.number.uses} != own:
            return


def _match_step(operation: ir.Operation) -> _Step | None:
    rounding = _ROUNDINGS.get(operation.name)
    if rounding is not None:
        return _Step(operation.operands[0], operation, rounding)
    if operation.name not in ("arith.addf", "arith.subf", "arith.mulf", "arith.divf"):
        return None
    number, constant = operation.operands[0], scalar_constant(operation.operands[1])
    if constant is None and operation.name in ("arith.addf", "arith.mulf"):
        number, constant = operation.operands[1], scalar_constant(operation.operands[0])
    if constant is None or not abs(constant) < inf:
        return None
    other = np.float32(constant)
    if operation.name == "arith.addf":
        return _Step(number, operation, lambda each: each + other, constant)
    if operation.name == "arith.subf":
        return _Step(number, operation, lambda each: each - other, -constant)
    if constant <= 0:
        return None
    if operation.name == "arith.mulf":
        return _Step(number, operation, lambda each: each * other)
    return _Step(number, operation, lambda each: each / other)


def _without_offset(chain: _Chain) -> _Chain:
    """The same chain, without an offset of integers at its end that is zero, or that is lost behind it."""
    last, limits = chain.steps[-1] if chain.steps else None, chain.limits
    if last is None or last.offset is None or last.offset != round(last.offset):
        return chain
    if max(abs(last.offset), -limits.low, limits.high) > _EXACT or not is_integral(last.number):
        return chain
    if last.offset == 0:
        return replace(chain, steps=chain.steps[:-1])
    users = [use.owner.operation for use in chain.result.uses]
    following = _match_step(users[0]) if len(users) == 1 else None
    if following is None or following.offset != -last.offset:
        return chain
    return replace(
        chain,
        result=following.operation.results[0],
        steps=chain.steps[:-1],
        limits=limits.after(following.function),
        operations=(*chain.operations, following.operation),
    )


def _rebuild(chain: _Chain) -> None:
    last, number = chain.operations[-1], chain.source
    with last.location, ir.InsertionPoint(last):
        for step in chain.steps:
            copy = step.operation.clone()
            operands = list(copy.operands)
            copy.operands[operands.index(step.number)] = number
            number = copy.results[0]
        number = chain.limits.build(number)
    chain.result.replace_all_uses_with(number)
    erase_if_unused([chain.operations[-1]])
