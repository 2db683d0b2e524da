"""IREE's operations by which kernels are launched, and see their workgroup and their arguments.

By their names: the bindings have classes for all operations of `stream` and `flow`, whose import would take
longer than all of the emission of a small program's kernels.
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.winograd.dialect.bindings import ir


def binding_subspan(
    type_: ir.Type, binding: ir.Value, offset: ir.Value, sizes: Sequence[ir.Value]
) -> ir.Value:
    """The memory of a kernel's argument from byte `offset` on; its dynamic dimensions have `sizes`."""
    return ir.Operation.create("stream.binding.subspan", [type_], [binding, offset, *sizes]).result


def workgroup_id(dimension: int) -> ir.Value:
    """The number of the workgroup that runs a kernel, in one of the three dimensions of the grid."""
    index = ir.IndexType.get()
    attributes = {"dimension": ir.IntegerAttr.get(index, dimension)}
    return ir.Operation.create("stream.dispatch.workgroup.id", [index], attributes=attributes).result


def dispatch_kernel(
    results: Sequence[ir.Type],
    workload: Sequence[ir.Value],
    entry_points: ir.Attribute,
    arguments: Sequence[ir.Value],
    argument_sizes: Sequence[ir.Value] = (),
    result_sizes: Sequence[ir.Value] = (),
    *,
    tied_operands: ir.ArrayAttr | None = None,
) -> ir.Operation:
    """Launches a kernel; `tied_operands` has for each result the number of the argument that it is, or -1.

    The sizes are the dynamic ones of tensors among the arguments and results.
    """
    segments = (workload, arguments, argument_sizes, result_sizes)
    attributes = {
        "entry_points": entry_points,
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get(list(map(len, segments))),
    }
    if tied_operands is not None:
        attributes["tied_operands"] = tied_operands
    operands = [operand for segment in segments for operand in segment]
    return ir.Operation.create("flow.dispatch", results, operands, attributes).operation
