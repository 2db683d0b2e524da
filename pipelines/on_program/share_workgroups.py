"""Have the caller of a program share the workgroups of its kernels with helpers, on CPUs."""

from __future__ import annotations

from collections.abc import Iterator

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import operations_of, symbol_name, walk

from ..cpu.helpers import mailbox_kernel, shared_kernel
from ..problems.helpers import MAILBOX_KERNEL

_FUNCTION = "llvm.func"


@register_pass("winograd-share-workgroups")
class ShareWorkgroups:
    """Have the caller of a program share the workgroups of kernels with helpers, if there are any.

    IREE's runtime calls a kernel for each workgroup. Where the program was given a mailbox, the call for the
    first one does all of them, with whoever looks into it, and the others nothing (`cpu/helpers.py`).

        llvm.func @kernel(%arg0: !llvm.ptr, %arg1: !llvm.ptr, %arg2: !llvm.ptr) -> i32 {
          ...
      becomes
        llvm.func internal @kernel.workgroup(%arg0: !llvm.ptr, ...) -> i32 attributes {no_inline} {
          ...
        llvm.func @kernel(%arg0: !llvm.ptr, %arg1: !llvm.ptr, %arg2: !llvm.ptr) -> i32 {
          %join = llvm.load @winograd.join.address
          llvm.cond_br %alone, (llvm.call @kernel.workgroup), (llvm.call %join(@kernel.workgroup, ...))

    The pass runs after IREE's `executable-targets` phase, also on kernels of IREE's own, in programs of
    `winograd-admit-helpers`.
    """

    def run(self, module: ir.Operation) -> None:
        kernels = list(_kernels(module))
        if any(symbol_name(each) == MAILBOX_KERNEL for each in kernels):
            rewrite_each("kernel", kernels, _share)


def _kernels(module: ir.Operation) -> Iterator[ir.Operation]:
    """The functions that IREE calls for workgroups."""
    for variant in walk(module):
        if variant.name == "hal.executable.variant":
            exported = {
                symbol_name(each) for each in operations_of(variant) if each.name == "hal.executable.export"
            }
            for holder in operations_of(variant):
                if holder.name == "builtin.module":
                    yield from (
                        each
                        for each in operations_of(holder)
                        if each.name == _FUNCTION and symbol_name(each) in exported
                    )


def _share(kernel: ir.Operation) -> None:
    name, holder = symbol_name(kernel), kernel.parent.operation
    if name == MAILBOX_KERNEL:
        kernel.erase()
        _add(holder, mailbox_kernel(name))
        return
    workgroup = f"{name}.workgroup"
    kernel.attributes["sym_name"] = ir.StringAttr.get(workgroup)
    kernel.attributes["linkage"] = ir.Attribute.parse("#llvm.linkage<internal>")
    # Called for one workgroup, and by its address for all.
    kernel.attributes["no_inline"] = ir.UnitAttr.get()
    _add(holder, shared_kernel(name, workgroup))


def _add(holder: ir.Operation, text: str) -> None:
    """Add what is defined in `text`, not what is declared."""
    # What is in a module is gone with it.
    added = ir.Module.parse(text)
    for operation in operations_of(added.operation):
        if operation.name != _FUNCTION or len(operation.regions[0].blocks):
            holder.regions[0].blocks[0].append(operation)
