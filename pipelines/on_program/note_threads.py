"""Note how many threads the kernels of a program are for."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.reflection import note_numbers
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.option import same_option
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import KERNEL, is_public, walk

from ..backends.module_backend import supported_backend
from ..problems.reflection import THREADS_KEY
from ..selection.options import WinogradOptions


@register_pass("winograd-note-threads")
@dataclass(frozen=True)
class NoteThreads:
    """Note how many threads the kernels of a program are for, as reflection of its functions, on CPUs.

    Schedules are chosen for a number of threads: on another one kernels compute the same, but may do more
    than they need to, or leave threads without work. Whoever loads the program can tell. Nothing is noted of
    a program without kernels.

        util.func public @main(%arg0: !hal.buffer_view) {
          %r = flow.dispatch @kernel::@kernel(%x, %packed)
      becomes, for 16 threads,
        util.func public @main(%arg0: !hal.buffer_view)
            attributes {iree.reflection = {winograd.threads = "16"}} {
    """

    threads: int = same_option(WinogradOptions, "threads", default=1)

    def run(self, module: ir.Operation) -> None:
        operations = list(walk(module))
        if not any(operation.name == KERNEL for operation in operations):
            return
        backend = supported_backend(module)
        if backend is None or not backend.uses_host_memory:
            return
        functions = [each for each in operations if each.name == "util.func" and is_public(each)]
        rewrite_each(
            "function", functions, lambda function: note_numbers(function, THREADS_KEY, [self.threads])
        )
