"""Calls of LLVM's intrinsics."""

from __future__ import annotations

from collections.abc import Sequence

from iree.winograd.dialect.bindings import ir


def call_intrinsic(name: str, operands: Sequence[ir.Value], results: Sequence[ir.Type] = ()) -> ir.Operation:
    """Emits the call of an intrinsic of the target's."""
    return ir.Operation.create(
        "llvm.call_intrinsic",
        list(results),
        list(operands),
        attributes={
            "intrin": ir.StringAttr.get(name),
            "op_bundle_sizes": ir.DenseI32ArrayAttr.get([]),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(operands), 0]),
        },
    )
