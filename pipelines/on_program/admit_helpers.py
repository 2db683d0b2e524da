"""Let threads of a process help its caller with the workgroups of kernels, on CPUs."""

from __future__ import annotations

from dataclasses import dataclass

from iree.compiler import version
from iree.winograd.dialect.bindings import ir, memref
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.option import same_option
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import KERNEL, operations_of, symbol_name

from ..backends.module_backend import supported_backend
from ..cpu.lowering import translation
from ..emission.buffer import Buffer
from ..emission.dispatch import KernelFunction, emit_dispatch, emit_executable
from ..emission.index import Index
from ..emission.public_function import (
    BUFFER_VIEW,
    export_tensor,
    import_tensor,
    public_function,
    return_from,
)
from ..emission.signature import DispatchSignature
from ..problems.executable_target import executable_targets
from ..problems.helpers import HELPERS_FUNCTION, MAILBOX_BYTES, MAILBOX_KERNEL, MOST_THREADS
from ..problems.reflection import ORDERED_VERSIONS
from ..selection.options import WinogradOptions

_FORMAT = "embedded-elf"
"""How IREE's names of binaries begin that it loads itself."""


@register_pass("winograd-admit-helpers")
@dataclass(frozen=True)
class AdmitHelpers:
    """Let threads of a process help its caller with the workgroups of kernels, in programs for few threads.

    IREE's runtime has workers, and the caller waits for them: of two threads on two cores a call wakes both
    up, and the caller at its end. A program gets a function instead that is given a mailbox, by which
    kernels share their workgroups with helpers (`winograd-share-workgroups`), and the caller is one of the
    threads. Without a call of it programs run as before.

        util.func public @main(%arg0: !hal.buffer_view) {
          %r = flow.dispatch @kernel::@kernel(%x, %packed)
      gets beside it
        util.func public @__winograd_helpers(%0: !hal.buffer_view) -> !hal.buffer_view {
          %mailbox = hal.tensor.import %0 : !hal.buffer_view -> tensor<256xi32>
          %read = flow.dispatch @winograd_mailbox::@winograd_mailbox(%mailbox)
    """

    threads: int = same_option(WinogradOptions, "threads", default=1)

    def run(self, module: ir.Operation) -> None:
        if not 1 < self.threads <= MOST_THREADS or not version.VERSION.startswith(ORDERED_VERSIONS):
            return
        if not any(operation.name == KERNEL for operation in operations_of(module)):
            return
        backend = supported_backend(module)
        if backend is None or not backend.shares_workgroups:
            return
        if all(target.format.startswith(_FORMAT) for target in executable_targets(module)):
            rewrite_each("program", [module], _admit, operation_of=lambda each: each)


def admits_helpers(module: ir.Operation) -> bool:
    """Whether kernels of a program, before IREE translates them, are to share their workgroups."""
    executables = [each for each in operations_of(module) if each.name == KERNEL]
    return any(symbol_name(each) == MAILBOX_KERNEL for each in executables)


def _admit(module: ir.Operation) -> None:
    with module.context, module.location:
        number = ir.IntegerType.get_signless(32)
        mailbox = ir.RankedTensorType.get([MAILBOX_BYTES // 4], number)
        signature = DispatchSignature.of([mailbox], ir.RankedTensorType.get([1], number))
        emit_executable(
            module,
            MAILBOX_KERNEL,
            signature,
            translation(),
            lambda sizes: (Index(1),),
            _emit_read,
            signature.bindings(),
        )
        view = ir.Type.parse(BUFFER_VIEW)
        body = public_function(module, HELPERS_FUNCTION, [view], [view])
        with ir.InsertionPoint(body):
            given = import_tensor(mailbox, body.arguments[0])
            return_from([export_tensor(emit_dispatch(MAILBOX_KERNEL, signature, [given]))])


def _emit_read(kernel: KernelFunction[Buffer]) -> None:
    """Has a kernel read the caller's memory, and write something, so that IREE keeps both.

    What it does instead is written once it is translated.
    """
    mailbox, result = (buffer.memref for buffer in kernel.buffers)
    first = [Index(0).value]
    memref.store(memref.load(mailbox, first), result, first)
