"""Has `iree.winograd` compile what is for a CPU for a processor of Arm's, and load it where it can run."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import iree.winograd
from guest_process import load_in_guest
from iree.winograd.compiling import program
from iree.winograd.loading import runtime

_CPU_FLAGS = ("--iree-llvmcpu-target-cpu", "--iree-llvmcpu-target-triple")


def run_emulated(processor: str) -> None:
    """Do so for the rest of this process. GPUs' programs, and what `torch.compile` does, stay as they are."""
    compile_for = partial(_compile, program.compile, f"cpu:{processor}")
    load_in = partial(_load, runtime.load, processor)
    for module in (iree.winograd, program):
        module.compile = compile_for  # type: ignore[attr-defined]
    for module in (iree.winograd, runtime):
        module.load = load_in  # type: ignore[attr-defined]


def _compile(
    compile: Any,
    processor: str,
    source: Any,
    *,
    target: str = "cpu",
    flags: Sequence[str] = (),
    **options: Any,
) -> Any:
    is_cpu = target.partition(":")[0] == "cpu"
    kept = [flag for flag in flags if not (is_cpu and flag.startswith(_CPU_FLAGS))]
    return compile(source, target=processor if is_cpu else target, flags=kept, **options)


def _load(load: Any, processor: str, compiled: Any, device: str = "local-task", **options: Any) -> Any:
    if not device.startswith("local-"):
        return load(compiled, device, **options)
    return load_in_guest(processor, compiled, device, **options)
