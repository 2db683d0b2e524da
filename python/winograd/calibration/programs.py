"""From a module of functions that launch kernels to what the runtime calls."""

from __future__ import annotations

from iree.winograd.compiling.compilation import Compilation
from iree.winograd.compiling.phases import REWRITE_PHASE, Stages
from iree.winograd.compiling.program import compile, open_session, open_source
from iree.winograd.diagnostic import Diagnostic
from iree.winograd.dialect.bindings import ir
from iree.winograd.errors import CompilationError
from iree.winograd.pipelines.backends.backend import Backend
from iree.winograd.pipelines.backends.module_backend import module_backend
from iree.winograd.targets import target_flags

_NOTHING = b"module {}"


def backend_of(name: str) -> Backend:
    """The kernels for `name`, a target of `iree.winograd.compile`.

    Raises `InvalidOptionError` for a name that isn't known, and `CompilationError` for a target without
    kernels.
    """
    diagnostics: list[Diagnostic] = []
    with Compilation(
        open_session(target_flags(name), None),
        None,
        Stages(compile_to=REWRITE_PHASE),
        report=diagnostics.append,
    ) as compilation:
        invocation = compilation.compile(open_source(compilation, _NOTHING))
        if invocation is None:
            raise CompilationError(diagnostics[0].message, diagnostics)
        try:
            return module_backend(invocation.export_module())
        except ValueError as error:
            raise CompilationError(str(error)) from None


def compile_module(module: ir.Module, target: str) -> bytes:
    """The module compiled by IREE alone for `target`, as in `iree.winograd.compile`."""
    return compile(str(module).encode(), target=target, flags=["--iree-opt-level=O3"], enable_winograd=False)
