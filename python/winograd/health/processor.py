"""The processor, and which kernels it gets."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from iree.winograd.pipelines.machines.host import available_processors, physical_cores

from .finding import Finding

_CPU_INFORMATION = Path("/proc/cpuinfo")
_FEATURES = ("avx512f", "avx2", "fma")
_ARM_FEATURES = ("asimd", "fphp", "bf16")
"""By Linux' names."""


def processor_findings() -> Iterator[Finding]:
    """Its name, its cores, and the widest vectors that kernels may use."""
    fields = _fields()
    machine = platform.machine()
    yield Finding("processor", fields.get("model name", machine))
    yield Finding(
        "cores", f"{physical_cores()} for this process, {available_processors()} of {os.cpu_count()} threads"
    )
    if machine in ("aarch64", "arm64", "ARM64"):
        features = set(fields.get("Features", "").split())
        present = [feature for feature in _ARM_FEATURES if feature in features]
        yield Finding("kernels", f"NEON ({', '.join(present) or 'no features'})")
        return
    if machine not in ("x86_64", "AMD64"):
        remedy = "compile for a GPU, or on an x86-64 or AArch64 processor"
        yield Finding("kernels", f"none for {machine}", remedy)
        return
    features = set(fields.get("flags", "").split())
    kernels = "no vectors in particular: 128 bits"
    if "avx512f" in features:
        kernels = "AVX-512"
    elif {"avx2", "fma"} <= features:
        kernels = "AVX2 with FMA"
    present = [feature for feature in _FEATURES if feature in features]
    yield Finding("kernels", f"{kernels} ({', '.join(present) or 'no features'})")


def _fields() -> dict[str, str]:
    """What Linux says of the first processor."""
    with suppress(OSError):
        first, _, _ = _CPU_INFORMATION.read_text().partition("\n\n")
        lines = (line.partition(":") for line in first.splitlines())
        return {name.strip(): value.strip() for name, _, value in lines}
    return {}
