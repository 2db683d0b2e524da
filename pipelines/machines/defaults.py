"""Machines as they are taken to be until `iree-winograd calibrate` has measured one.

Clocks, cores, sizes, peak rates and memory bandwidths are those of data sheets; bandwidths of caches, and of
memory to one core, are what published microbenchmarks reached. Of the models that share a name a large one
stands here. Measured by us: znver5, emeraldrapids, whose cores sapphirerapids has, and sm_90.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from .amd import amd_chip
from .model import CacheLevel, CpuMachine, GpuMachine
from .units import KIBIBYTE, MEBIBYTE

DISPATCH_SECONDS = 2e-6
WAKE_SECONDS = 20e-6
LAUNCH_SECONDS = 3.5e-6


@dataclass(frozen=True)
class _Processor:
    """A CPU by the figures that data sheets and microbenchmarks give; the L2 cache's size is the target's."""

    clock: float
    """GHz that a core keeps while it multiplies vectors."""
    cores: int
    first_cache: int
    """KiB."""
    last_cache: int
    """MiB that one core can use."""
    bytes_per_cycle: tuple[float, float, float]
    """Read from the caches."""
    bandwidth: float
    """GB/s read from memory by one core."""
    shared_bandwidth: float
    """GB/s of memory."""
    vector_instructions: int = 2
    """Multiply-adds that a core starts in a cycle, of vectors that aren't wider than its units."""
    unit_lanes: int | None = None
    """Elements of f32 of its units, of which wider vectors take several; None where none are wider."""
    loads: int = 2
    """Vectors that a core starts to load in a cycle."""
    bf16_instructions: int | None = None
    """Such vectors of pairs of bf16 that a core starts to multiply in a cycle; None where that wasn't
    measured, or a matrix unit is faster."""


_PROCESSORS = {
    "haswell": _Processor(3.4, 4, 32, 8, (64, 28, 14), 14, 25.6),
    "broadwell": _Processor(3.4, 4, 32, 8, (64, 28, 14), 15, 34.1),
    "skylake": _Processor(4.0, 4, 32, 8, (64, 32, 14), 18, 34.1),
    "skylake-avx512": _Processor(2.6, 28, 32, 38, (128, 48, 8), 12, 128),
    "cascadelake": _Processor(2.8, 28, 32, 38, (128, 48, 8), 13, 141),
    "cooperlake": _Processor(2.9, 28, 32, 38, (128, 48, 8), 13, 154),
    "icelake-server": _Processor(2.9, 40, 48, 60, (128, 48, 8), 13, 205),
    "sapphirerapids": _Processor(2.5, 56, 48, 105, (104, 44, 10), 20, 307),
    "emeraldrapids": _Processor(2.5, 64, 48, 320, (104, 44, 10), 20, 358),
    "graniterapids": _Processor(3.2, 128, 48, 504, (128, 48, 7), 14, 614),
    "alderlake": _Processor(4.9, 8, 48, 30, (96, 48, 14), 40, 76.8),
    "raptorlake": _Processor(5.3, 8, 48, 36, (96, 48, 14), 45, 89.6),
    "znver1": _Processor(3.2, 32, 32, 8, (32, 28, 16), 20, 171, unit_lanes=4),
    "znver2": _Processor(3.3, 64, 32, 16, (64, 28, 18), 22, 205),
    "znver3": _Processor(3.5, 64, 32, 32, (64, 28, 20), 26, 205),
    # Vectors of AVX-512 take both of its units, where a virtual machine has them.
    "znver4": _Processor(3.7, 96, 32, 32, (64, 30, 22), 35, 461, unit_lanes=8, bf16_instructions=2),
    "znver5": _Processor(4.1, 128, 48, 32, (104, 47, 27), 35, 614),
    # Published figures alone: Arm's software optimization guides, Apple's data sheets, and microbenchmarks of
    # AWS' Graviton 2 and 3, NVIDIA's Grace, Rockchip's RK3588, and the Max models of Apple's.
    "cortex-a76": _Processor(2.4, 4, 64, 3, (32, 20, 10), 12, 34),
    "neoverse-n1": _Processor(2.5, 64, 64, 32, (32, 20, 8), 18, 205),
    "neoverse-v1": _Processor(2.6, 64, 64, 32, (48, 28, 10), 26, 307, vector_instructions=4, loads=3),
    "neoverse-v2": _Processor(3.2, 72, 64, 114, (48, 30, 10), 35, 500, vector_instructions=4, loads=3),
    "apple-m1": _Processor(3.2, 8, 128, 48, (48, 32, 18), 90, 240, vector_instructions=4, loads=3),
    "apple-m2": _Processor(3.5, 8, 128, 48, (48, 32, 18), 95, 240, vector_instructions=4, loads=3),
    "apple-m3": _Processor(4.0, 12, 128, 48, (48, 32, 18), 100, 300, vector_instructions=4, loads=3),
    "apple-m4": _Processor(4.4, 12, 128, 48, (48, 32, 18), 110, 400, vector_instructions=4, loads=3),
}
"""By LLVM's names."""


def _gpu(
    name: str,
    teraflops: float,
    multiprocessors: int,
    cache: int,
    cache_bandwidth: float,
    bandwidth: float,
    matrix_teraflops: float | None = None,
) -> GpuMachine:
    """A GPU by its operations of f32 outside of matrix units, MiB of cache, and TB/s of cache and memory.

    Those of matrix units are of fp16, with sums in f32.
    """
    return GpuMachine(
        name=name,
        flops=teraflops * 1e12,
        multiprocessors=multiprocessors,
        cache_size=cache * MEBIBYTE,
        cache_bandwidth=cache_bandwidth * 1e12,
        memory_bandwidth=bandwidth * 1e12,
        launch_seconds=LAUNCH_SECONDS,
        matrix_flops=None if matrix_teraflops is None else matrix_teraflops * 1e12,
    )


_H200 = _gpu("sm_90", 67, 132, 50, 7, 4.2, 990)
_GPUS = {
    "sm_80": _gpu("sm_80", 19.5, 108, 40, 4.5, 2.0, 312),  # A100, 80 GB
    "sm_86": _gpu("sm_86", 35.6, 82, 6, 2.0, 0.94, 71),  # GeForce RTX 3090
    "sm_89": _gpu("sm_89", 82.6, 128, 72, 5.0, 1.01, 165),  # GeForce RTX 4090
    "sm_90": _H200,
    "sm_90a": replace(_H200, name="sm_90a"),
}
"""NVIDIA's, by the architectures that IREE's targets name."""


def default_cpu_machine(name: str, lanes: int, fused_multiply_add: bool, l2_bytes: int) -> CpuMachine:
    """A processor of the table, or else a core of usual clock and bandwidths.

    `lanes` are f32 elements of its widest vectors, `l2_bytes` is the size of its second cache.
    """
    processor = _PROCESSORS.get(name) or _usual_processor(lanes)
    started = min(lanes, processor.unit_lanes or lanes)
    operations = (2 if fused_multiply_add else 1) * started
    cycles = processor.clock * 1e9
    sizes = (processor.first_cache * KIBIBYTE, l2_bytes, processor.last_cache * MEBIBYTE)
    return CpuMachine(
        name=name,
        flops=processor.vector_instructions * operations * cycles,
        clock=cycles,
        caches=tuple(
            CacheLevel(size, count * cycles)
            for size, count in zip(sizes, processor.bytes_per_cycle, strict=True)
        ),
        memory_bandwidth=processor.bandwidth * 1e9,
        shared_memory_bandwidth=processor.shared_bandwidth * 1e9,
        dispatch_seconds=DISPATCH_SECONDS,
        wake_seconds=WAKE_SECONDS,
        cores=processor.cores,
        loads_per_cycle=processor.loads,
        # A pair is two products.
        bf16_flops=processor.bf16_instructions and processor.bf16_instructions * 2 * operations * cycles,
    )


def default_gpu_machine(architecture: str) -> GpuMachine:
    """A GPU of the tables: for others of AMD's one of its family, else the one that kernels were measured on.

    Of that ratios are much the same.
    """
    if (chip := amd_chip(architecture)) is not None:
        return _gpu(
            architecture,
            chip.teraflops,
            chip.compute_units,
            chip.cache,
            chip.cache_bandwidth,
            chip.bandwidth,
            chip.matrix_teraflops,
        )
    return _GPUS.get(architecture) or replace(_H200, name="")


def _usual_processor(lanes: int) -> _Processor:
    clock = 3.5 if lanes < 16 else 4.2
    return _Processor(clock, 8, 32, 16, (8 * lanes, 32, 14), 8 * clock, 16 * clock)
