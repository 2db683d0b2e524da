"""Let threads of a process help its caller with the workgroups of kernels, on CPUs."""

from __future__ import annotations

from dataclasses import dataclass

from iree.compiler import version
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.option import same_option
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import KERNEL, operations_of, symbol_name

from ..backends.module_backend import supported_backend
from ..problems.executable_target import executable_targets
from ..problems.helpers import HELPERS_FUNCTION, MAILBOX_BYTES, MAILBOX_KERNEL, MOST_THREADS
from ..problems.reflection import ORDERED_VERSIONS
from ..selection.options import WinogradOptions

_FORMAT = "embedded-elf"
"""How IREE's names of binaries begin that it loads itself."""
_BOX = f"{MAILBOX_BYTES // 4}xi32"
_PROGRAM = f"""
stream.executable private @{MAILBOX_KERNEL} {{
  stream.executable.export public @{MAILBOX_KERNEL} workgroups() -> (index, index, index) {{
    %one = arith.constant 1 : index
    stream.return %one, %one, %one : index, index, index
  }}
  builtin.module {{
    func.func @{MAILBOX_KERNEL}(%0: !stream.binding, %1: !stream.binding) {{
      %zero = arith.constant 0 : index
      %mailbox = stream.binding.subspan %0[%zero] : !stream.binding -> memref<{_BOX}>
      %result = stream.binding.subspan %1[%zero] : !stream.binding -> memref<1xi32>
      %read = memref.load %mailbox[%zero] : memref<{_BOX}>
      memref.store %read, %result[%zero] : memref<1xi32>
      return
    }}
  }}
}}
util.func public @{HELPERS_FUNCTION}(%0: !hal.buffer_view) -> !hal.buffer_view {{
  %mailbox = hal.tensor.import %0 : !hal.buffer_view -> tensor<{_BOX}>
  %read = flow.dispatch @{MAILBOX_KERNEL}::@{MAILBOX_KERNEL}(%mailbox) : (tensor<{_BOX}>) -> tensor<1xi32>
  %1 = hal.tensor.export %read : tensor<1xi32> -> !hal.buffer_view
  util.return %1 : !hal.buffer_view
}}
"""
"""IREE has the kernel read the caller's memory, and write something, so that it stays. What it does is
written once it is translated."""


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
        added = ir.Module.parse(_PROGRAM)
    for operation in operations_of(added.operation):
        module.regions[0].blocks[0].append(operation)
