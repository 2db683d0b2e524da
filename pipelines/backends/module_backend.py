"""The backends that there are, and the one for a module."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.problems.executable_target import ExecutableTarget, executable_targets

from .backend import Backend


def backends() -> Iterator[type[Backend]]:
    """Those that there are, each imported when it is its turn: what one target needs the others don't."""
    from iree.winograd.pipelines.cpu.backend import CpuBackend

    yield CpuBackend
    from iree.winograd.pipelines.gpu.backend import GpuBackend

    yield GpuBackend


def unsupported_target(module: ir.Operation) -> str | None:
    """Why the module's targets have no kernels here, or None."""
    targets = executable_targets(module)
    if not targets:
        # In the words of IREE, which gives this error, too, but only in a later phase.
        return (
            "no HAL devices defined in the module; use the module-level hal.device.targets attribute, the "
            "--iree-hal-target-device= flag, or provide inputs with global !hal.devices defined"
        )
    for target in targets:
        if _match(target) is None:
            return f'iree-winograd has no kernels for target "{target.backend}" ({target.format})'
    first, *others = {_match(target) for target in targets}
    if others:
        return "iree-winograd has no kernels that run on CPUs and GPUs alike"
    assert first is not None
    conflict = first.conflict(targets)
    return None if conflict is None else f"iree-winograd has no kernels that run {conflict}"


def module_backend(module: ir.Operation) -> Backend:
    """The backend for all of the module's targets: code that has to run on several makes do with the least.

    Raises ValueError with the reason when there are no kernels for them.
    """
    reason = unsupported_target(module)
    if reason is not None:
        raise ValueError(reason)
    targets = executable_targets(module)
    backend = _match(targets[0])
    assert backend is not None
    return backend.least(targets)


def supported_backend(module: ir.Operation) -> Backend | None:
    """As `module_backend`; None when there are no kernels for the module's targets."""
    return module_backend(module) if unsupported_target(module) is None else None


@cache
def _match(target: ExecutableTarget) -> type[Backend] | None:
    return next((backend for backend in backends() if backend.matches(target)), None)
