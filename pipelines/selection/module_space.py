"""The search space that a module's target and the machine in a file give."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.infrastructure.registry import PassError
from iree.winograd.pipelines.backends.module_backend import module_backend
from iree.winograd.pipelines.backends.search_space import SearchSpace
from iree.winograd.pipelines.cpu.backend import CpuBackend
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.machines.store import read_machine
from iree.winograd.pipelines.problems.executable_target import executable_targets

AVX512_BACKEND = CpuBackend(CpuTarget.of("", "+avx512f"))
"""For programs that don't say what they are compiled for."""


def module_space(module: ir.Operation, machine: str | None, threads: int) -> SearchSpace:
    """The search space of a module's target and of the machine in the file `machine`, or its default one.

    Raises PassError after an error diagnostic when there are no kernels for the target, or the file holds no
    machine of its kind.
    """
    try:
        backend = module_backend(module) if executable_targets(module) else AVX512_BACKEND
    except ValueError as error:
        module.location.emit_error(str(error))
        raise PassError from None
    default = backend.default_machine
    try:
        model = default if machine is None else read_machine(machine, default.kind)
    except (OSError, ValueError) as error:
        module.location.emit_error(f"the machine can't be read: {error}")
        raise PassError from None
    return backend.search_space(model, threads)
