"""What threads know of elements that they added, and how that of two threads becomes one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.pipelines.emission.control_flow import loop_carried
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.vectors import broadcast, constant_like, multiply_add, splat

State = list[ir.Value]
"""One value a component: scalars, or vectors of as many lanes, each of its own elements."""


@dataclass(frozen=True)
class Statistic:
    """Of elements one after the other; `components` of a state are passed on by threads."""

    components: int
    zero: Callable[[int, ir.Type], State]
    """That of no elements, of so many lanes of a type; one lane is a scalar."""
    of: Callable[[Sequence[ir.Value]], State]
    """That of some elements, of each lane as many."""
    merge: Callable[[State, State], State]
    join: Callable[[int, Callable[[Index], State], ir.Type], State]
    """That of so many sets, which have as many elements each, by their scalar states."""

    @property
    def counts(self) -> bool:
        """Whether the first component of a state is the number of its elements."""
        return self.components > 1

    def add(self, state: State, elements: Sequence[ir.Value]) -> State:
        """With more elements, of each lane as many."""
        return self.merge(state, self.of(elements))


def zeros(lanes: int, element: ir.Type) -> ir.Value:
    """A vector of so many lanes, a scalar if there is one."""
    return arith.constant(element, 0.0) if lanes == 1 else splat(0.0, lanes, element)


def tree_sum(values: Sequence[ir.Value]) -> ir.Value:
    """Sums of pairs, and of these, which don't wait for each other."""
    sums = list(values)
    while len(sums) > 1:
        pairs = [arith.addf(*sums[i : i + 2]) for i in range(0, len(sums) - 1, 2)]
        sums = pairs + sums[2 * len(pairs) :]
    return sums[0]


def _sum_of(elements: Sequence[ir.Value]) -> State:
    return [reduce(arith.addf, elements)]


def _merge_sums(a: State, b: State) -> State:
    return [arith.addf(a[0], b[0])]


def _joined_sums(sets: int, load: Callable[[Index], State], element: ir.Type) -> State:
    return loop_carried(sets, 1, [zeros(1, element)], lambda i, state: _merge_sums(state, load(i)), "column")


def _joined_moments(sets: int, load: Callable[[Index], State], element: ir.Type) -> State:
    """By the mean of means, and what they differ from it by: merges would wait for each other's divisions."""
    zero = zeros(1, element)
    (total,) = loop_carried(sets, 1, [zero], lambda i, state: [arith.addf(state[0], load(i)[1])], "column")
    mean = arith.mulf(total, constant_like(total, 1 / sets))

    def add(i: Index, state: State) -> State:
        _, each, deviations = load(i)
        difference = arith.subf(each, mean)
        return [arith.addf(state[0], deviations), arith.addf(state[1], arith.mulf(difference, difference))]

    within, between = loop_carried(sets, 1, [zero, zero], add, "column")
    count, *_ = load(Index(0))
    all_ = arith.mulf(count, constant_like(count, sets))
    return [all_, mean, arith.addf(within, arith.mulf(count, between))]


def _moments_of(elements: Sequence[ir.Value]) -> State:
    """Squared deviations are from the mean that is known before."""
    mean, *_ = elements
    element = ir.VectorType(mean.type).element_type if isinstance(mean.type, ir.VectorType) else mean.type
    number = arith.constant(element, float(len(elements)))
    deviations = constant_like(mean, 0.0)
    if len(elements) > 1:
        total = reduce(arith.addf, elements)
        mean = arith.mulf(total, constant_like(total, 1 / len(elements)))
        first, *others = (arith.subf(each, mean) for each in elements)
        deviations = arith.mulf(first, first)
        for each in others:
            deviations = _multiply_add(each, each, deviations)
    return [number, mean, deviations]


def merged_moments(a: State, b: State) -> State:
    """Count, mean and sum of squared deviations of two sets of elements as one.

    Chan, Golub and LeVeque (The American Statistician 1983), which cancels nothing, however large the mean.
    Counts may be scalars where the others are vectors.
    """
    (count, mean, deviations), (other_count, other_mean, other_deviations) = a, b
    total = arith.addf(count, other_count)
    # Of nothing and nothing this is 0 / 1.
    share = arith.divf(other_count, arith.maximumf(total, constant_like(total, 1.0)))
    weight = arith.mulf(count, share)
    share, weight = (_like(each, mean) for each in (share, weight))
    difference = arith.subf(other_mean, mean)
    merged = _multiply_add(difference, share, mean)
    within = arith.addf(deviations, other_deviations)
    return [total, merged, _multiply_add(arith.mulf(difference, difference), weight, within)]


def _multiply_add(a: ir.Value, b: ir.Value, addend: ir.Value) -> ir.Value:
    return multiply_add(a, b, addend, fused=isinstance(a.type, ir.VectorType))


def _like(scalar: ir.Value, value: ir.Value) -> ir.Value:
    if scalar.type == value.type:
        return scalar
    return broadcast(scalar, ir.VectorType(value.type).shape[0])


SUM = Statistic(1, lambda lanes, element: [zeros(lanes, element)], _sum_of, _merge_sums, _joined_sums)
MOMENTS = Statistic(
    3,
    lambda lanes, element: [zeros(each, element) for each in (1, lanes, lanes)],
    _moments_of,
    merged_moments,
    _joined_moments,
)
"""Count, mean and the sum of squared deviations from it. The count is a scalar."""
