"""Functions that a program gets beside its own, for whoever loads it."""

from __future__ import annotations

from collections.abc import Sequence

from iree.winograd.dialect.bindings import ir

from .dispatch_operations import UNTIED

BUFFER_VIEW = "!hal.buffer_view"
"""The type of tensors as callers see them."""


def public_function(
    module: ir.Operation, name: str, arguments: Sequence[ir.Type], results: Sequence[ir.Type]
) -> ir.Block:
    """Adds `util.func public @name(arguments) -> results` at the end of the module; returns its empty block.

    No result is memory of an argument. The block is to be ended by `return_from`.
    """
    index = ir.IndexType.get()
    function = ir.Operation.create(
        "util.func",
        attributes={
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(list(arguments), list(results))),
            "sym_name": ir.StringAttr.get(name),
            "sym_visibility": ir.StringAttr.get("public"),
            "tied_operands": ir.ArrayAttr.get([ir.IntegerAttr.get(index, UNTIED)] * len(results)),
        },
        regions=1,
        ip=ir.InsertionPoint(module.regions[0].blocks[0]),
    )
    block: ir.Block = function.regions[0].blocks.append(*arguments)
    return block


def return_from(results: Sequence[ir.Value]) -> None:
    """Ends a public function."""
    ir.Operation.create("util.return", operands=list(results))


def import_tensor(type_: ir.RankedTensorType, view: ir.Value) -> ir.Value:
    """The tensor of known sizes that a caller gave as a buffer view."""
    attributes = {
        "target_encoding": ir.TypeAttr.get(type_),
        # The view, and neither dynamic sizes nor a fence nor a device.
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 0, 0, 0]),
    }
    return ir.Operation.create("hal.tensor.import", [type_], [view], attributes).result


def export_tensor(tensor: ir.Value) -> ir.Value:
    """A tensor of known sizes as the buffer view that a caller gets."""
    attributes = {"source_encoding": ir.TypeAttr.get(tensor.type)}
    return ir.Operation.create("hal.tensor.export", [ir.Type.parse(BUFFER_VIEW)], [tensor], attributes).result
