"""Have the caller of a program share the workgroups of its kernels with helpers, on CPUs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import operations_of, symbol_name, walk

from ..cpu.helpers.kernels import emit_mailbox_kernel, emit_shared_kernel
from ..problems.helpers import MAILBOX_KERNEL

_FUNCTION = "llvm.func"
_MEMORY = "workgroup_local_memory"


@register_pass("winograd-share-workgroups")
class ShareWorkgroups:
    """Have the caller of a program share the workgroups of kernels with helpers, if there are any.

    IREE's runtime calls a kernel for each workgroup. Where the program was given a mailbox, the call for the
    first one does all of them, with whoever looks into it, and the others nothing (`cpu/helpers/`).

        llvm.func @kernel(%arg0: !llvm.ptr, %arg1: !llvm.ptr, %arg2: !llvm.ptr) -> i32 {
          ...
      becomes
        llvm.func internal @kernel.workgroup(%arg0: !llvm.ptr, ...) -> i32 attributes {no_inline} {
          ...
        llvm.func @kernel(%arg0: !llvm.ptr, %arg1: !llvm.ptr, %arg2: !llvm.ptr) -> i32 {
          %join = llvm.load @winograd.join.address
          llvm.cond_br %alone, (llvm.call @kernel.workgroup), (llvm.call %join(@kernel.workgroup, ...))

    Memory of a workgroup's own is the program's then. The pass runs after IREE's `executable-targets` phase,
    also on kernels of IREE's own, in programs of `winograd-admit-helpers`.
    """

    def run(self, module: ir.Operation) -> None:
        kernels = list(_kernels(module))
        if any(each.name == MAILBOX_KERNEL for each in kernels):
            most = max(each.memory for each in kernels)
            rewrite_each("kernel", kernels, lambda kernel: kernel.share(most))


@dataclass(frozen=True)
class _Kernel:
    """A function that IREE calls for workgroups, with what says so."""

    export: ir.Operation
    operation: ir.Operation

    @property
    def name(self) -> str:
        return symbol_name(self.export)

    @property
    def memory(self) -> int:
        """Bytes that a workgroup has of its own."""
        if _MEMORY not in self.export.attributes:
            return 0
        memory: int = ir.IntegerAttr(self.export.attributes[_MEMORY]).value
        return memory

    def share(self, most_memory: int) -> None:
        """Have its caller share workgroups, which have up to so much memory in the program."""
        function = self.operation
        beside = function.parent.operation.regions[0].blocks[0]
        # A function's own location says that what has it is a part of that function.
        location = ir.Location.unknown(function.context)
        if self.name == MAILBOX_KERNEL:
            function.erase()
            with location, ir.InsertionPoint(beside):
                emit_mailbox_kernel(self.name, most_memory)
            return
        workgroup = f"{self.name}.workgroup"
        function.attributes["sym_name"] = ir.StringAttr.get(workgroup)
        function.attributes["linkage"] = ir.Attribute.parse("#llvm.linkage<internal>")
        # Called for one workgroup, and by its address for all.
        function.attributes["no_inline"] = ir.UnitAttr.get()
        uses_memory = self.memory > 0
        if uses_memory:
            del self.export.attributes[_MEMORY]
        with location, ir.InsertionPoint(beside):
            emit_shared_kernel(self.name, workgroup, most_memory, uses_memory=uses_memory)


def _kernels(module: ir.Operation) -> Iterator[_Kernel]:
    for variant in walk(module):
        if variant.name != "hal.executable.variant":
            continue
        inside = operations_of(variant)
        exports = {symbol_name(each): each for each in inside if each.name == "hal.executable.export"}
        for holder in inside:
            if holder.name == "builtin.module":
                functions = [each for each in operations_of(holder) if each.name == _FUNCTION]
                yield from (
                    _Kernel(exports[symbol_name(each)], each)
                    for each in functions
                    if symbol_name(each) in exports
                )
