"""IREE's operations by which kernels are launched, and see their workgroup and their arguments.

By their names: the bindings have classes for all operations of `stream` and `flow`, whose import would take
longer than all of the emission of a small program's kernels.
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.winograd.dialect.bindings import ir

UNTIED = -1
"""IREE's operand of a result that is memory of its own."""
_TIED = "tied_operands"


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
    tied_operands: Sequence[int] | None = None,
) -> ir.Operation:
    """Launches a kernel; `tied_operands` are its `operands_of_results`, None where all results are memory of
    their own.

    The sizes are the dynamic ones of tensors among the arguments and results.
    """
    segments = (workload, arguments, argument_sizes, result_sizes)
    attributes = {
        "entry_points": entry_points,
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get(list(map(len, segments))),
    }
    if tied_operands is not None:
        index = ir.IndexType.get()
        attributes[_TIED] = ir.ArrayAttr.get([ir.IntegerAttr.get(index, each) for each in tied_operands])
    operands = [operand for segment in segments for operand in segment]
    return ir.Operation.create("flow.dispatch", results, operands, attributes).operation


def operands_of_results(dispatch: ir.Operation) -> tuple[int, ...]:
    """For each result the number of the argument that it is, or `UNTIED`."""
    if _TIED not in dispatch.attributes:
        return (UNTIED,) * len(dispatch.results)
    return tuple(int(ir.IntegerAttr(each).value) for each in ir.ArrayAttr(dispatch.attributes[_TIED]))


def replace_dispatch(dispatch: ir.Operation, changed: ir.Operation) -> None:
    """Has `changed`, of as many results or further ones, stand for `dispatch`, with what is noted on that."""
    for name in dispatch.attributes:
        if name not in changed.attributes:
            changed.attributes[name] = dispatch.attributes[name]
    for before, after in zip(dispatch.results, changed.results, strict=False):
        before.replace_all_uses_with(after)
    dispatch.erase()
