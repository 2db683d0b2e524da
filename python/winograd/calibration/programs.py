"""From a module of functions that launch kernels to what the runtime calls."""

from __future__ import annotations

from iree.compiler import api
from iree.winograd.compilation import Compilation, Stages
from iree.winograd.diagnostics import Diagnostic
from iree.winograd.dialect.bindings import ir
from iree.winograd.errors import CompilationError
from iree.winograd.pipelines.kernel_target import KernelTarget, kernel_target
from iree.winograd.program import compile
from iree.winograd.targets import target_flags

_NOTHING = b"module {}\0"


def target_of(name: str) -> KernelTarget:
    """What kernels for `name`, a target of `iree.winograd.compile`, are generated for.

    Raises `InvalidOptionError` for a name that isn't known, and `CompilationError` for a target without
    kernels.
    """
    diagnostics: list[Diagnostic] = []
    session = api.Session()
    session.set_flags(*target_flags(name))
    with Compilation(
        session, None, Stages(compile_to="preprocessing"), report=diagnostics.append, warn=lambda _: None
    ) as compilation:
        invocation = compilation.compile(api.Source.wrap_buffer(session, _NOTHING))
        if invocation is None:
            raise CompilationError(diagnostics[0].message, diagnostics)
        try:
            return kernel_target(invocation.export_module())
        except ValueError as error:
            raise CompilationError(str(error)) from None


def compile_module(module: ir.Module, target: str) -> bytes:
    """The module compiled by IREE alone for `target`, as in `iree.winograd.compile`."""
    return compile(str(module).encode(), target=target, flags=["--iree-opt-level=O3"], enable_winograd=False)
