"""Values that are computed before what reads them, not again by each of their users."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.tensors import shape_of

BARRIER = "util.optimization_barrier"
COMPUTED_FIRST_ATTRIBUTE_NAME = "winograd.computed_first"
"""Marks barriers of ours, which `winograd-end-computed-first` takes out; a program may have its own."""


def compute_first(value: ir.OpResult) -> None:
    """Have all users read `value` behind a barrier, across which IREE fuses nothing.

    Nor does it find sizes across it that are known only at run time: these are stated.
    """
    marks = {COMPUTED_FIRST_ATTRIBUTE_NAME: ir.UnitAttr.get()}
    uses = [(use.owner.operation, use.operand_number) for use in value.uses]
    operation = value.owner.operation
    with ir.InsertionPoint.after(operation), operation.location:
        read = ir.Operation.create(BARRIER, [value.type], [value], marks).result
        unknown = [size for size in shape_of(value) if isinstance(size, ir.Value)]
        if unknown:
            read = ir.Operation.create("flow.tensor.tie_shape", [value.type], [read, *unknown]).result
    for user, number in uses:
        user.operands[number] = read
