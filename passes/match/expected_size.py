"""Sizes that are expected of images whose sizes are known only at run time."""

from __future__ import annotations

from iree.winograd.dialect.attributes import sizes_of
from iree.winograd.dialect.bindings import ir

EXPECTED_SIZE_ATTRIBUTE_NAME = "winograd.expected_size"
"""For a convolution some of whose input's spatial sizes, padding included, are known only at run time: what
they are expected to be; handed to its product, too. Its outputs are as many as that input allows."""


def expected_size(operation: ir.Operation) -> tuple[int, ...] | None:
    """What the spatial sizes of an input are expected to be, as noted on a convolution or its product."""
    if EXPECTED_SIZE_ATTRIBUTE_NAME not in operation.attributes:
        return None
    return sizes_of(operation.attributes[EXPECTED_SIZE_ATTRIBUTE_NAME])
