"""Long sums: added in blocks, since a running sum's rounding errors grow with its length."""

from __future__ import annotations

from collections.abc import Callable
from math import log

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import arith, ir

from .control_flow import loop_carried, named
from .index import Index, IndexLike, ceildiv
from .vectors import splat

Add = Callable[[Index, IndexLike, list[ir.Value]], list[ir.Value]]
"""`sums = add(first, steps, sums)` adds the products of `steps` steps from `first` on."""


def add_in_blocks(
    sums: list[ir.Value], steps: IndexLike, most_steps: int, terms: int, block: int | None, add: Add
) -> list[ir.Value]:
    """Emits `add` of all `steps`, up to `most_steps`, of `terms` products each; in blocks of about `block`.

    Loops in one another call it one by one, each with the products of one of its steps: blocks are made of
    the steps of a single one of these loops, the innermost whose steps together are a block. Sums of a block
    begin at zero, and are added to `sums`, which lie in registers or, while a block is summed, on the stack.
    """
    if block is None or not terms < block <= most_steps * terms:
        return add(Index(0), steps, sums)
    steps, size = Index.of(steps), steps_of_block(most_steps, terms, block)

    def add_block(number: Index, totals: list[ir.Value]) -> list[ir.Value]:
        first = number * size
        is_divided = steps.known is not None and steps.known % size == 0
        extent = Index(size) if is_divided else (steps - first).minimum(size)
        sums_of_block = add(first, extent, [_zero(total) for total in totals])
        with named("total"):
            return [arith.addf(total, each) for total, each in zip(totals, sums_of_block, strict=True)]

    return loop_carried(ceildiv(steps, size), 1, sums, add_block, "block")


def loop_in_blocks(
    sums: list[ir.Value],
    steps: IndexLike,
    most_steps: int,
    terms: int,
    block: int | None,
    body: Callable[[Index, list[ir.Value]], list[ir.Value]],
    name: str,
) -> list[ir.Value]:
    """`add_in_blocks` of a loop whose `body` adds the products of a step."""

    def add(first: Index, count: IndexLike, sums: list[ir.Value]) -> list[ir.Value]:
        return loop_carried(count, 1, sums, lambda step, sums: body(first + step, sums), name)

    return add_in_blocks(sums, steps, most_steps, terms, block, add)


def steps_of_block(steps: int, terms: int, block: int) -> int:
    """Steps of `terms` products in a block: about `block` products, without a rest if possible."""
    even = [size for size in range(1, steps + 1) if steps % size == 0]
    nearest = min(even, key=lambda size: abs(log(size * terms / block)))
    if block <= 2 * nearest * terms <= 4 * block:
        return nearest
    return ceil_div(steps, max(1, round(steps * terms / block)))


def _zero(sum_: ir.Value) -> ir.Value:
    """A zero of the type of a sum."""
    type_ = ir.VectorType(sum_.type)
    return splat(0.0, type_.shape[0], type_.element_type)
