"""How kernels that wait for each other say so: what passes on programs and on commands agree on.

The memory that they count in has lines of `CACHE_LINE_COUNTS` integers of 32 bits, zero when a call begins:
the number of kernels that are done; for each share of the work, one for each thread, that of kernels of which
it is done; what processors have claimed; and for each kernel and share what is taken of it, and done.
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import ir

from .cache_line import CACHE_LINE_BYTES

CHAINED_ATTRIBUTE_NAME = "winograd.chained"
"""Of a `stream.executable` whose workgroups wait for those of the kernels before."""

PRODUCTS_ATTRIBUTE_NAME = "winograd.products"
"""Of a `stream.executable`: the multiply-adds of all its workgroups, where there are many."""

FILTERS_ATTRIBUTE_NAME = "winograd.filters"
"""Of a `stream.executable`: the number of the operand that holds filters, its bytes, and those of them that
the workgroups of one y coordinate read. These lie in order, and no kernel of a chain writes them."""

SPANS_ATTRIBUTE_NAME = "winograd.spans"
"""Of a `stream.executable`: of its result and of each of its operands, which elements the workgroups of each
x coordinate touch: the first one and the one after the last of each in turn. None where it may be all of
them."""

OVERWRITABLE_ATTRIBUTE_NAME = "winograd.overwritable"
"""Of a `stream.executable`: the numbers of the operands that it reads only where it then writes a result of
the same type, each element once."""

CACHE_LINE_COUNTS = CACHE_LINE_BYTES // 4
"""Counts, integers of 32 bits, that a cache line holds."""

FINISHED = 0
"""The element that says how many kernels are done."""

PROCESSORS = 256
"""Numbers of processors that are told apart, of which each has an element: the share that it has claimed,
from 1 on."""

WHOLE = -1
"""The reach of a kernel that begins when all workgroups of the kernel before are done."""

TAKEN, ARRIVED, DONE_SHARES = 0, 1, 2
"""Of the line of a kernel's share: how many of its workgroups are taken, and how many done; in that of the
first share also how many shares are done."""


def progress_element(share: int) -> int:
    """The one that says of how many kernels this share is done."""
    return (1 + share) * CACHE_LINE_COUNTS


def claim_element(threads: int) -> int:
    """The first of `PROCESSORS`, after which come those of how often each thread's share was claimed."""
    return progress_element(threads)


def first_kernel_element(threads: int) -> int:
    """The first one of the first kernel."""
    return claim_element(threads) + PROCESSORS + ceil_div(threads, CACHE_LINE_COUNTS) * CACHE_LINE_COUNTS


def kernel_elements(threads: int) -> int:
    """Those of a kernel: a line for each thread's share."""
    return threads * CACHE_LINE_COUNTS


Spans = Sequence[range] | None
"""The elements of a tensor that the workgroups of each x coordinate touch; None where it may be all of
them."""


def spans_attribute(of_result: Spans, of_operands: Sequence[Spans]) -> ir.Attribute:
    """That of `SPANS_ATTRIBUTE_NAME`."""
    return ir.ArrayAttr.get(
        [
            ir.DenseI64ArrayAttr.get([bound for span in spans or () for bound in (span.start, span.stop)])
            for spans in (of_result, *of_operands)
        ]
    )


def spans_of(executable: ir.Operation) -> list[Spans]:
    """What `spans_attribute` has said of a kernel; empty where it has said nothing."""
    if SPANS_ATTRIBUTE_NAME not in executable.attributes:
        return []
    attribute = ir.ArrayAttr(executable.attributes[SPANS_ATTRIBUTE_NAME])
    bounds = (list(ir.DenseI64ArrayAttr(each)) for each in attribute)
    return [[range(*pair) for pair in zip(each[::2], each[1::2], strict=True)] or None for each in bounds]
