"""Loops and guards, which fold where what they depend on is known while the kernel is built."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from iree.winograd.dialect.bindings import ir, scf

from .index import Condition, Index, IndexLike


@contextmanager
def named(name: str) -> Iterator[None]:
    """Has what is emitted within carry a name, beside the location that it has.

    The bindings can't name values; `winograd-opt --mlir-use-nameloc-as-prefix` prints these as their names.
    """
    with ir.Location.name(name, ir.Location.current):
        yield


@contextmanager
def loop(upper: IndexLike, step: IndexLike = 1, name: str = "i") -> Iterator[Index]:
    """`for i in range(0, upper, step)`; a loop of one known iteration is only its body."""
    upper, step = Index.of(upper), Index.of(step)
    if upper.known is not None and step.known is not None and 0 < upper.known <= step.known:
        yield Index(0)
        return
    bounds = Index(0).value, upper.value, step.value
    with named(name):
        for_op = scf.ForOp(*bounds)
    with ir.InsertionPoint(for_op.body):
        yield Index(for_op.induction_variable)
        scf.yield_([])


@contextmanager
def loops(extents: Sequence[IndexLike], name: str = "i") -> Iterator[tuple[Index, ...]]:
    """Loops in one another, one for each extent, the last one inside."""
    with ExitStack() as stack:
        yield tuple(stack.enter_context(loop(extent, name=name)) for extent in extents)


def loop_carried(
    upper: IndexLike,
    step: int,
    initial: Sequence[ir.Value],
    body: Callable[[Index, list[ir.Value]], Sequence[ir.Value]],
    name: str = "i",
) -> list[ir.Value]:
    """`for i in range(0, upper, step): values = body(i, values)`; gives the last values."""
    upper = Index.of(upper)
    if upper.known is not None and 0 < upper.known <= step:
        return list(body(Index(0), list(initial)))
    bounds = Index(0).value, upper.value, Index(step).value
    with named(name):
        for_op = scf.ForOp(*bounds, list(initial))
    with ir.InsertionPoint(for_op.body):
        scf.yield_(list(body(Index(for_op.induction_variable), list(for_op.inner_iter_args))))
    return list(for_op.results)


def when(condition: Condition, then: Callable[[], None], otherwise: Callable[[], None] | None = None) -> None:
    """Emits `then` under the condition, `otherwise` under its negation; one of them if it is known."""
    if condition.known is not None:
        if condition.known:
            then()
        elif otherwise is not None:
            otherwise()
        return
    if_op = scf.IfOp(condition.value, has_else=otherwise is not None)
    with ir.InsertionPoint(if_op.then_block):
        then()
        scf.yield_([])
    if otherwise is not None:
        with ir.InsertionPoint(if_op.else_block):
            otherwise()
            scf.yield_([])


def values_when(
    condition: Condition, then: Callable[[], Sequence[ir.Value]], otherwise: Sequence[ir.Value]
) -> list[ir.Value]:
    """What `then` gives where the condition holds, elsewhere as many other values."""
    if condition.known is not None:
        return list(then() if condition.known else otherwise)
    if_op = scf.IfOp(condition.value, [value.type for value in otherwise], has_else=True)
    with ir.InsertionPoint(if_op.then_block):
        scf.yield_(list(then()))
    with ir.InsertionPoint(if_op.else_block):
        scf.yield_(list(otherwise))
    return list(if_op.results)
