"""Machines as they are taken to be until `iree-winograd calibrate` has measured one."""

from __future__ import annotations

from dataclasses import replace

from .cpu.target import CpuTarget
from .gpu.target import GpuTarget
from .machine import KIBIBYTE, MEBIBYTE, CacheLevel, CpuMachine, GpuMachine

_CYCLES = 3.5e9
"""Per second, of a core."""
_VECTOR_INSTRUCTIONS = 2
"""That a core starts in a cycle."""


def default_cpu_machine(target: CpuTarget) -> CpuMachine:
    """A core of usual clock and bandwidths with the target's vectors and L2 cache."""
    cycle = _CYCLES if target.vector_width < 16 else 1.2 * _CYCLES
    return CpuMachine(
        name="",
        flops=_VECTOR_INSTRUCTIONS * (2 if target.fused_multiply_add else 1) * target.vector_width * cycle,
        caches=(
            CacheLevel(32 * KIBIBYTE, 8 * target.vector_width * cycle),
            CacheLevel(target.l2_bytes, 32 * cycle),
            CacheLevel(max(16 * MEBIBYTE, 2 * target.l2_bytes), 14 * cycle),
        ),
        memory_bandwidth=8 * cycle,
        shared_memory_bandwidth=16 * cycle,
        dispatch_seconds=2e-6,
        wake_seconds=8e-6,
        cores=8,
    )


H200 = GpuMachine(
    name="sm_90",
    flops=67e12,
    multiprocessors=132,
    cache_size=50 * MEBIBYTE,
    cache_bandwidth=7e12,
    memory_bandwidth=4.2e12,
    launch_seconds=2e-6,
)


def default_gpu_machine(target: GpuTarget) -> GpuMachine:
    """The GPU that the kernels were measured on; ratios of its rates are those of others, too."""
    return replace(H200, name="")
