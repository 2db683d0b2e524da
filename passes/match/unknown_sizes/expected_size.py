"""Sizes that are expected of images whose sizes, or number, are known only at run time."""

from __future__ import annotations

from collections.abc import Sequence

from iree.winograd.dialect.attributes import sizes_of
from iree.winograd.dialect.bindings import ir

EXPECTED_SIZE_ATTRIBUTE_NAME = "winograd.expected_size"
"""For a convolution some of whose input's spatial sizes, padding included, are known only at run time: what
they are expected to be; handed to its product, too. Its outputs are as many as that input allows. For a
gradient by a filter the same of the convolution's input: of its outputs there may be other numbers."""

EXPECTED_BATCH_ATTRIBUTE_NAME = "winograd.expected_batch"
"""For a convolution of a batch that is known only at run time: how many images the user expects."""


def expected_batch(operation: ir.Operation) -> int | None:
    """How many images are expected, as noted on a convolution; None where nobody says."""
    attributes = operation.attributes
    if EXPECTED_BATCH_ATTRIBUTE_NAME not in attributes:
        return None
    return int(ir.IntegerAttr(attributes[EXPECTED_BATCH_ATTRIBUTE_NAME]).value)


def expected_size(operation: ir.Operation) -> tuple[int, ...] | None:
    """What the spatial sizes of an input are expected to be, as noted on a convolution or its product."""
    if EXPECTED_SIZE_ATTRIBUTE_NAME not in operation.attributes:
        return None
    return sizes_of(operation.attributes[EXPECTED_SIZE_ATTRIBUTE_NAME])


def unpadded_size(padded: Sequence[int], low: Sequence[int], high: Sequence[int]) -> tuple[int, ...]:
    """What is left of spatial sizes without padding; of an input at least an element is expected."""
    return tuple(max(1, size - before - after) for size, before, after in zip(padded, low, high, strict=True))
