"""How kernels that wait for each other say so: what passes on programs and on commands agree on."""

from __future__ import annotations

CHAINED_ATTRIBUTE_NAME = "winograd.chained"
"""Of a `stream.executable` whose workgroups wait for those of the kernels before."""

PRODUCTS_ATTRIBUTE_NAME = "winograd.products"
"""Of a `stream.executable`: the multiply-adds of all its workgroups, where there are many."""

FILTERS_ATTRIBUTE_NAME = "winograd.filters"
"""Of a `stream.executable`: the number of the operand that holds filters, its bytes, and those of them that
the workgroups of one y coordinate read. These lie in order, and no kernel of a chain writes them."""

LINE_ELEMENTS = 16
"""Integers of 32 bits of a cache line."""

COUNT_ELEMENTS = 2 * LINE_ELEMENTS
"""Those of the memory of a count: it is the first one. The first one of the next line, which workgroups wait
for, is that of all workgroups of the last kernel that is done."""

PROCESSORS = 256
"""Numbers of processors that are told apart. After the count there is one element for each of them: the share
that it has claimed, from 1 on."""


def claim_elements(threads: int) -> int:
    """Those of `PROCESSORS`, and of how often each thread's share was claimed, which follow them."""
    return PROCESSORS + -(-threads // LINE_ELEMENTS) * LINE_ELEMENTS


def share_elements(threads: int) -> int:
    """Those of a kernel: how many workgroups of each thread's share are taken, in a line each.

    They follow the claims, those of one kernel after those of the one before.
    """
    return threads * LINE_ELEMENTS
