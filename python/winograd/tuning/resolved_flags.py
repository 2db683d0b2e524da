"""Flags of `iree-compile` that mean the same on every machine."""

from __future__ import annotations

from iree.winograd.compilation import REWRITE_PHASE, Compilation, Stages
from iree.winograd.dialect.bindings import ir
from iree.winograd.errors import CompilationError
from iree.winograd.pipelines.specification.executable_target import executable_targets
from iree.winograd.program import open_session


def resolve_flags(flags: tuple[str, ...]) -> tuple[str, ...]:
    """`flags`, followed by those that name the processor and the features that `host` is on this machine.

    Raises `InvalidOptionError` for flags that aren't known.
    """
    with Compilation(
        open_session(flags, None),
        None,
        Stages(compile_to=REWRITE_PHASE),
        report=lambda diagnostic: None,
    ) as compilation:
        with compilation.context, ir.Location.unknown():
            module = ir.Module.create()
        invocation = compilation.compile(module.operation)
        if invocation is None:
            raise CompilationError(f"nothing can be compiled with {' '.join(flags)}")
        targets = executable_targets(invocation.export_module())
    if [target.backend for target in targets] != ["llvm-cpu"]:
        return flags
    (target,) = targets
    processor, features = target.field("cpu"), target.field("cpu_features")
    return (
        *flags,
        f"--iree-llvmcpu-target-cpu={processor}",
        f"--iree-llvmcpu-target-cpu-features={features}",
    )
