"""Transforms that read a channels-first image in place of what it was transposed to."""

from __future__ import annotations

from iree.winograd.dialect import ops
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.rewrite.erasure import erase_if_unused


def read_channels_first(transform: ops.InputTransformOp, transposition: ir.Operation) -> ops.InputTransformOp:
    """Have an input transform read what `transposition` makes channels last; returns the new transform.

    The transposition is erased if nothing else reads it.
    """
    with transform.location, ir.InsertionPoint(transform):
        folded = ops.input_transform(
            transposition.operands[0],
            transform.decomposition,
            transform.padding_low,
            transform.padding_high,
            transform.groups,
            channels_first=True,
        )
    transform.result.replace_all_uses_with(folded.result)
    erase_if_unused([transform.operation])
    return folded
