"""Have kernels write results where operands lie that nothing reads afterwards, in programs for one thread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.option import same_option
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import (
    KERNEL,
    called_kernels,
    defining_operation,
    kernel_functions,
    operand_groups,
    symbol_name,
    walk,
)

from ..backends.module_backend import supported_backend
from ..emission.dispatch_operations import UNTIED, dispatch_kernel, operands_of_results, replace_dispatch
from ..problems.chain import OVERWRITABLE_ATTRIBUTE_NAME
from ..selection.options import WinogradOptions

_DISPATCH = "flow.dispatch"


@register_pass("winograd-overwrite-operands")
@dataclass(frozen=True)
class OverwriteOperands:
    """Have kernels write results where operands lie that nothing reads afterwards, for one thread.

    A sum of a convolution and a shortcut lies in memory of its own otherwise, which the processor reads
    before it overwrites it. A kernel says which operands it reads only where it then writes, each element
    once. Several threads wait for all of a kernel before one that overwrites.

        func.func @k(%x: !stream.binding, %shortcut: !stream.binding, %y: !stream.binding)
        %y = flow.dispatch @k::@k(%x, %shortcut) : (...) -> tensor<1x14x14x64xbf16>
      becomes
        func.func @k_over_1(%x: !stream.binding, %shortcut: !stream.binding)
        %y = flow.dispatch @k_over_1::@k_over_1(%x, %shortcut) : (...) -> %shortcut

    Calls of one kernel that may not overwrite keep it as it is, the others get a copy. IREE drops kernels
    without calls.
    """

    threads: int = same_option(WinogradOptions, "threads", default=1)

    def run(self, module: ir.Operation) -> None:
        backend = supported_backend(module)
        if self.threads > 1 or backend is None or not backend.uses_host_memory:
            return
        kernels = {
            symbol_name(each): each
            for each in walk(module)
            if each.name == KERNEL and OVERWRITABLE_ATTRIBUTE_NAME in each.attributes
        }
        calls = [
            _Call(each, name, next(_overwritable(each, kernels[name]), None))
            for each in walk(module)
            if each.name == _DISPATCH
            for name in called_kernels(each)
            if name in kernels
        ]
        groups: dict[tuple[str, int], list[ir.Operation]] = {}
        for call in calls:
            if call.overwritten is not None:
                groups.setdefault((call.kernel, call.overwritten), []).append(call.dispatch)
        rewrite_each(
            "kernel",
            [_Group(kernels[name], number, group) for (name, number), group in groups.items()],
            _overwrite,
            operation_of=lambda each: each.executable,
        )


@dataclass(frozen=True)
class _Call:
    dispatch: ir.Operation
    kernel: str
    overwritten: int | None
    """The number of the argument in whose place the result may be."""


@dataclass(frozen=True)
class _Group:
    """The calls of a kernel that overwrite the same argument."""

    executable: ir.Operation
    overwritten: int
    dispatches: Sequence[ir.Operation]


def _overwritable(dispatch: ir.Operation, executable: ir.Operation) -> Iterator[int]:
    """The numbers of arguments in whose place the result may be."""
    arguments = operand_groups(dispatch)[1]
    if operands_of_results(dispatch) != (UNTIED,):
        return
    for number in ir.DenseI64ArrayAttr(executable.attributes[OVERWRITABLE_ATTRIBUTE_NAME]):
        value = arguments[number]
        if value.type == dispatch.results[0].type and _is_last_use(value, dispatch):
            yield number


def _is_last_use(value: ir.Value, dispatch: ir.Operation) -> bool:
    """Whether a tensor that a kernel computes is read by `dispatch`, once, and else by kernels it waits for.

    Others might read at the same time, and reshapes have readers of their own.
    """
    definition = defining_operation(value)
    if definition is None or definition.name != _DISPATCH:
        return False
    users = [use.owner.operation for use in value.uses]
    others = [each for each in users if each != dispatch]
    return len(users) - len(others) == 1 and all(
        each.name == _DISPATCH and each.block == dispatch.block and _waits_for(dispatch, each)
        for each in others
    )


def _waits_for(dispatch: ir.Operation, other: ir.Operation) -> bool:
    """Whether an operand is the result of another operation of the block, or made of it."""
    seen: list[ir.Operation] = []
    left = [dispatch]
    while left:
        for operand in left.pop().operands:
            made = defining_operation(operand)
            if made == other:
                return True
            if made is None or made in seen or made.block != other.block:
                continue
            if other.is_before_in_block(made):
                seen.append(made)
                left.append(made)
    return False


def _overwrite(group: _Group) -> None:
    kernel, overwritten = symbol_name(group.executable), group.overwritten
    executable = group.executable.clone(ir.InsertionPoint(group.executable)).operation
    name = f"{kernel}_over_{overwritten}"
    (function,) = kernel_functions(executable)
    (export,) = (
        view.operation for view in executable.regions[0].blocks[0] if view.name == "stream.executable.export"
    )
    # IREE links kernels into one library, where names of exports are to differ, too.
    for each in (executable, export, function):
        each.attributes["sym_name"] = ir.StringAttr.get(name)
    export.attributes["function_ref"] = ir.FlatSymbolRefAttr.get(name)
    block = function.regions[0].blocks[0]
    *_, result = block.arguments
    result.replace_all_uses_with(block.arguments[overwritten])
    block.erase_argument(result.arg_number)
    types = [argument.type for argument in block.arguments]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, []))
    entry = ir.ArrayAttr.get([ir.SymbolRefAttr.get([name, name])])
    for dispatch in group.dispatches:
        with dispatch.location, ir.InsertionPoint(dispatch):
            workload, *arguments_and_sizes = operand_groups(dispatch)
            changed = dispatch_kernel(
                [dispatch.results[0].type], workload, entry, *arguments_and_sizes, tied_operands=[overwritten]
            )
        replace_dispatch(dispatch, changed)
