"""What the machine that measures says of itself: what its device is, and what `host` stands for."""

from __future__ import annotations

from iree import runtime
from iree.winograd.compiling.compilation import Compilation
from iree.winograd.compiling.phases import REWRITE_PHASE, Stages
from iree.winograd.compiling.program import open_session
from iree.winograd.dialect.bindings import ir
from iree.winograd.errors import CompilationError, LoadError
from iree.winograd.pipelines.problems.executable_target import executable_targets
from iree.winograd.pipelines.selection.tuning_database import processor_name


def device_name(uri: str) -> str:
    """The processor's for a CPU, that of the driver's device for others, e.g. "NVIDIA H200".

    Raises `LoadError` when there is no such device.
    """
    driver, _, path = uri.partition("://")
    if driver.startswith("local-"):
        return processor_name()
    try:
        devices = runtime.get_driver(driver).query_available_devices()
    except (RuntimeError, ValueError) as error:
        raise LoadError(f"no device {uri!r}: {error}") from error
    chosen = [device for device in devices if path in ("", device["path"])] or devices
    if path.isdigit() and int(path) < len(devices):
        chosen = devices[int(path) :]
    if not chosen:
        raise LoadError(f"no device {uri!r}: its driver finds none")
    return str(chosen[0]["name"])


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
