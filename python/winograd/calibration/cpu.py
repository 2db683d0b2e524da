"""Measuring a CPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt
from iree.winograd.loading.device import BUFFER_ALIGNMENT
from iree.winograd.loading.runtime import LoadedProgram, load
from iree.winograd.pipelines.cpu.backend import CpuBackend
from iree.winograd.pipelines.machines.host import physical_cores
from iree.winograd.pipelines.machines.model import CacheLevel, CpuMachine
from iree.winograd.pipelines.machines.units import KIBIBYTE, MEBIBYTE

from .cpu_programs import (
    CLOCK_CYCLES,
    DISPATCHES,
    WOKEN_DISPATCHES,
    block_bytes,
    build_cpu_programs,
    multiply_adds,
    passes_over,
)
from .programs import backend_of, compile_module
from .sampling import least_seconds
from .topology import cache_sizes

MIN_BUFFER = 8 * KIBIBYTE
MAX_BUFFER = 512 * MEBIBYTE
BEYOND_CACHES = 4
"""Times the last cache's size a buffer has to be for it to come from memory."""
GAIN_PER_CORE = 0.7
"""The part of its rate that a core keeps at least when all work; else some of them share units."""
ASLEEP = 0.9
"""The part of the time of two workgroups on one thread from which on no other thread seems to have run."""
BANDWIDTH_DROP = 0.7
"""Of a larger buffer's bandwidth over that of a level's: less, and the buffer is in the next level."""

_Array = npt.NDArray[np.float32]


def measure_cpu(threads: int, seconds: float, progress: Callable[[float], None]) -> CpuMachine:
    """Measures the machine that this runs on, with up to `threads` threads, in about `seconds`.

    Fixed costs are differences of programs that do the same more or less often.

    Raises `CompilationError` when there are no kernels for the processor.
    """
    backend = backend_of("cpu")
    assert isinstance(backend, CpuBackend)
    target = backend.target
    programs = compile_module(build_cpu_programs(target, threads), "cpu")
    sizes = cache_sizes()
    largest = min(BEYOND_CACHES * sizes[-1], MAX_BUFFER) if sizes else MAX_BUFFER
    buffer = aligned_ones(largest // block_bytes(target), block_bytes(target) // 4)
    counts = _block_counts(len(buffer), block_bytes(target))
    alone, together = load(programs, "local-sync"), load(programs, threads=threads)
    runs = _runs(alone, together, target.vector_width, threads)
    runs |= {f"read {count}": partial(alone.read_alone, buffer[:count]) for count in counts}
    runs["read together"] = partial(together.read_together, buffer)
    times = least_seconds(runs, seconds, progress)

    def read(count: int, seconds: float) -> float:
        return passes_over(count, target) * count * block_bytes(target) / seconds

    bandwidths = {count * block_bytes(target): read(count, times[f"read {count}"]) for count in counts[:-1]}
    caches = cache_levels(bandwidths, sizes or detect_cache_sizes(bandwidths))
    memory = min(caches[-1].bandwidth, read(counts[-1], times[f"read {counts[-1]}"]))
    alone_seconds, woken_seconds = (_difference(times, name, WOKEN_DISPATCHES) for name in ("alone", "woken"))
    flops = multiply_adds(target) / times["multiply-add"]
    together_flops = threads * multiply_adds(target) / times["multiply-add together"]
    usual = backend.default_machine
    return CpuMachine(
        name=target.cpu,
        flops=flops,
        clock=CLOCK_CYCLES / times["clock"],
        caches=caches,
        memory_bandwidth=memory,
        shared_memory_bandwidth=max(memory, read(counts[-1], times["read together"])),
        dispatch_seconds=_difference(times, "dispatch", DISPATCHES),
        wake_seconds=wake_seconds(alone_seconds, woken_seconds) or usual.wake_seconds,
        cores=useful_cores(together_flops / flops, threads, physical_cores()),
        # Not measured: both rates follow the clock.
        bf16_flops=usual.bf16_flops and usual.bf16_flops * flops / usual.flops,
    )


def useful_cores(gain: float, threads: int, physical: int) -> int:
    """How many of `threads` gain from each other, if together they are `gain` times as fast as one.

    Clocks are lower where all cores work, so that the number of `physical` cores that the system tells is
    believed where most of it shows as gain. It isn't where virtual cores are the threads of real ones.
    """
    cores = min(physical, threads)
    return cores if gain >= GAIN_PER_CORE * cores else max(1, round(gain))


def cache_levels(bandwidths: Mapping[int, float], sizes: Sequence[int]) -> tuple[CacheLevel, ...]:
    """The levels of caches of the given sizes, from the bytes per second at which buffers were read, by size.

    A level shows in buffers of twice the size of the one inside of it to three quarters of its own. None is
    faster than those inside of it; what looks so is noise.
    """
    levels: list[CacheLevel] = []
    for inner, size in zip((0, *sizes), sizes, strict=False):
        within = [rate for buffer, rate in bandwidths.items() if 2 * inner <= buffer <= 0.75 * size]
        if within:
            levels.append(CacheLevel(size, min([median(within), *(level.bandwidth for level in levels)])))
    return tuple(levels)


def detect_cache_sizes(bandwidths: Mapping[int, float]) -> tuple[int, ...]:
    """The sizes of the levels as bandwidths show them: the last buffer before each drop."""
    sizes: list[int] = []
    level: list[float] = []
    previous = 0
    for size, rate in sorted(bandwidths.items()):
        if level and rate < BANDWIDTH_DROP * median(level):
            sizes.append(previous)
            level = []
        level.append(rate)
        previous = size
    return tuple(sizes or [previous])


def _runs(
    alone: LoadedProgram, together: LoadedProgram, lanes: int, threads: int
) -> dict[str, Callable[[], Any]]:
    one, all_threads = aligned_ones(1, lanes), aligned_ones(threads, lanes)
    return {
        "multiply-add": partial(alone.multiply_add, one),
        "multiply-add together": partial(together.multiply_add, all_threads),
        "clock": partial(alone.clock, one),
        "dispatch short": partial(alone.dispatch_short, one),
        "dispatch long": partial(alone.dispatch_long, one),
        "alone short": partial(together.alone_short, one),
        "alone long": partial(together.alone_long, one),
        "woken short": partial(together.woken_short, all_threads),
        "woken long": partial(together.woken_long, all_threads),
    }


def _difference(times: Mapping[str, float], name: str, dispatches: tuple[int, int]) -> float:
    """Seconds of one dispatch of a chain, at least a nanosecond."""
    fewer, more = dispatches
    return max(1e-9, (times[f"{name} long"] - times[f"{name} short"]) / (more - fewer))


def wake_seconds(alone: float, woken: float) -> float | None:
    """Until other threads start, from the seconds of a dispatch of one workgroup and of one with several.

    None where no other thread ran: they were busy with something else all the time.
    """
    return max(1e-9, woken - alone) if woken < 2 * ASLEEP * alone else None


def _block_counts(most: int, size: int) -> list[int]:
    """Blocks of the buffers to read, each larger than the one before by a square root of two."""
    counts = [MIN_BUFFER // size]
    while counts[-1] * 2**0.5 < most:
        counts.append(round(MIN_BUFFER // size * 2 ** (len(counts) / 2)))
    return [*counts, most]


def aligned_ones(rows: int, columns: int) -> _Array:
    """Memory that programs read in place, all of it written to: pages that aren't share one page of zeros."""
    padding = BUFFER_ALIGNMENT // 4
    memory = np.ones(rows * columns + padding, np.float32)
    start = -memory.ctypes.data % BUFFER_ALIGNMENT // 4
    return memory[start : start + rows * columns].reshape(rows, columns)
