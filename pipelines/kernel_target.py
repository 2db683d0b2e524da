"""What kernels are generated for: the least of the targets that a module is compiled for."""

from __future__ import annotations

from functools import reduce

from iree.winograd.dialect.bindings import ir

from .cpu.target import CpuTarget
from .gpu import target as gpu_target
from .gpu.target import GpuTarget
from .target import ExecutableTarget, executable_targets

KernelTarget = CpuTarget | GpuTarget


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
        if not _is_x86(target) and target.backend not in gpu_target.BACKENDS:
            return f'iree-winograd has no kernels for target "{target.backend}" ({target.format})'
    if len({_is_x86(target) for target in targets}) > 1:
        return "iree-winograd has no kernels that run on CPUs and GPUs alike"
    return None


def kernel_target(module: ir.Operation) -> KernelTarget:
    """The module's target: code that has to run on several makes do with the least.

    Raises ValueError with the reason when there are no kernels for it.
    """
    reason = unsupported_target(module)
    if reason is not None:
        raise ValueError(reason)
    targets = executable_targets(module)
    if _is_x86(targets[0]):
        cpus = [CpuTarget.of(target.field("cpu"), target.field("cpu_features")) for target in targets]
        return reduce(CpuTarget.least, cpus)
    return reduce(GpuTarget.least, map(GpuTarget.of, targets))


def _is_x86(target: ExecutableTarget) -> bool:
    return target.backend == "llvm-cpu" and target.field("target_triple").startswith("x86_64")
