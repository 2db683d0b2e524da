"""Values that are computed before what reads them, not again by each of their users."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir


def compute_first(value: ir.OpResult) -> None:
    """Have all users read `value` behind a barrier, across which IREE fuses nothing."""
    uses = [(use.owner.operation, use.operand_number) for use in value.uses]
    operation = value.owner.operation
    with ir.InsertionPoint.after(operation), operation.location:
        read = ir.Operation.create("util.optimization_barrier", [value.type], [value]).result
    for user, number in uses:
        user.operands[number] = read
