"""Measuring a GPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from statistics import median
from typing import Any

from iree.winograd.errors import CompilationError
from iree.winograd.pipelines.gpu.backend import GpuBackend
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.machines.model import GpuMachine
from iree.winograd.pipelines.machines.units import KIBIBYTE, MEBIBYTE

from .device_programs import DevicePrograms
from .gpu_programs import (
    COPY_DISPATCHES,
    MULTIPLY_ADD_DISPATCHES,
    SATURATING_THREADS,
    build_gpu_programs,
    copy_elements,
    multiply_add_elements,
    workgroup_multiply_adds,
)
from .programs import backend_of, compile_module
from .sampling import least_seconds

MIN_ARRAY = 512 * KIBIBYTE
MAX_ARRAY = 256 * MEBIBYTE
MAX_WORKGROUPS = 1 << 12
MAX_CALL = 0.2
"""Seconds: more workgroups or larger arrays than those of such a call show nothing new."""
STEP = 1.5
"""Of the time that multiprocessors take, one workgroup each: more, and some of them had two."""
CACHE_GAIN = 1.2
"""Over the bandwidth of memory: less, and no cache shows."""
LAUNCH_BOUND = 1.5
"""Times of a launch: less, and a copy says little of bandwidth."""
MEDIAN_OF_LARGEST = 4
"""Sizes, the largest, that the bandwidth of memory is the median of."""


def measure_gpu(
    device: str, target_name: str, seconds: float, progress: Callable[[float], None]
) -> GpuMachine:
    """Measures the GPU `device`, a URI of IREE's runtime, by programs for `target_name`.

    What a device doesn't show, a cache no faster than its memory say, is taken from the default machine.

    Raises `CompilationError` when `target_name` is not that of a GPU or has no kernels, and `LoadError` when
    there is no such device or it can't run programs for that target.
    """
    backend = backend_of(target_name)
    if not isinstance(backend, GpuBackend):
        raise CompilationError(f"target {target_name!r} is not that of a GPU")
    target = backend.target
    programs = DevicePrograms(compile_module(build_gpu_programs(target), target_name), device)
    return measure_programs(programs, target, seconds, progress)


def measure_programs(
    programs: DevicePrograms, target: GpuTarget, seconds: float, progress: Callable[[float], None]
) -> GpuMachine:
    """As `measure_gpu`, by programs that are compiled already."""
    durations = _measure_copies(programs, target, seconds / 2, lambda part: progress(part / 2))
    launch_seconds = durations[min(durations)]
    bandwidths = copy_bandwidths(durations)
    flops, multiprocessors = _measure_multiply_adds(
        programs, target, seconds / 2, lambda part: progress(0.5 + part / 2)
    )
    default = GpuBackend(target).default_machine
    memory_bandwidth = median([bandwidths[size] for size in sorted(bandwidths)[-MEDIAN_OF_LARGEST:]])
    cache_size, cache_bandwidth = cache_of(bandwidths, memory_bandwidth) or (
        default.cache_size,
        memory_bandwidth,
    )
    return GpuMachine(
        name=target.architecture,
        flops=flops,
        multiprocessors=multiprocessors or default.multiprocessors,
        cache_size=cache_size,
        cache_bandwidth=cache_bandwidth,
        memory_bandwidth=memory_bandwidth,
        launch_seconds=launch_seconds,
    )


def copy_bandwidths(durations: Mapping[int, float]) -> dict[int, float]:
    """Bytes per second by the bytes moved, from the seconds of copies that move them, the least a launch.

    What a copy takes longer than one of half the size is free of what any copy takes. Copies that are hardly
    longer than a launch don't count, nor do those that take less than half of what they should longer, which
    is noise, unless all are such.
    """
    sizes = sorted(durations)
    found = {}
    for size in sizes[1:]:
        half = max(each for each in sizes if each <= 0.6 * size)
        longer = durations[size] - durations[half]
        least_longer = durations[size] * (1 - 1 / LAUNCH_BOUND) / 4
        if durations[size] > LAUNCH_BOUND * durations[sizes[0]] and longer > least_longer:
            found[size] = (size - half) / longer
    return found or {sizes[-1]: sizes[-1] / durations[sizes[-1]]}


def cache_of(bandwidths: Mapping[int, float], memory_bandwidth: float) -> tuple[int, float] | None:
    """Size and bandwidth of the last-level cache, from bytes per second by the bytes that were moved.

    It holds what is moved faster than midway between its bandwidth and that of memory. None where nothing is
    faster than memory.
    """
    faster = [rate for rate in bandwidths.values() if rate > CACHE_GAIN * memory_bandwidth]
    if not faster:
        return None
    limit = (median(faster) + memory_bandwidth) / 2
    return max(size for size, rate in bandwidths.items() if rate > limit), median(faster)


def resident_workgroups(seconds_of: Callable[[int], float], most: int) -> int | None:
    """How many workgroups, at most `most`, a GPU works on in the time of one: one per multiprocessor.

    None where it is more than `most`, or only one.
    """
    limit = STEP * seconds_of(1)
    fits, exceeds = 1, 2
    while seconds_of(exceeds) < limit:
        fits, exceeds = exceeds, 2 * exceeds
        if exceeds > most:
            return None
    while exceeds - fits > 1:
        middle = (fits + exceeds) // 2
        if seconds_of(middle) < limit:
            fits = middle
        else:
            exceeds = middle
    return fits if fits > 1 else None


def _measure_copies(
    programs: DevicePrograms, target: GpuTarget, seconds: float, progress: Callable[[float], None]
) -> dict[int, float]:
    """Seconds of one copy by the bytes that it reads and writes, the least of which take no time."""
    columns = copy_elements(target)
    row_bytes = 4 * columns
    counts = [1]
    counts += _growing(
        MIN_ARRAY // row_bytes,
        MAX_ARRAY // row_bytes,
        2**0.5,
        lambda rows: programs.bind("copy_long", rows, columns),
    )
    runs: dict[str, Callable[[], Any]] = {}
    for count in counts:
        runs |= _chains(programs, "copy", count, columns)
    times = least_seconds(runs, seconds, progress)
    return {2 * count * row_bytes: _difference(times, "copy", count, COPY_DISPATCHES) for count in counts}


def _measure_multiply_adds(
    programs: DevicePrograms, target: GpuTarget, seconds: float, progress: Callable[[float], None]
) -> tuple[float, int | None]:
    """Operations per second, and the number of multiprocessors if it shows."""
    columns = multiply_add_elements(target)
    counts = list(
        _growing(1, MAX_WORKGROUPS, 2, lambda rows: programs.bind("multiply_add_long", rows, columns))
    )
    runs: dict[str, Callable[[], Any]] = {}
    for count in counts:
        runs |= _chains(programs, "multiply_add", count, columns)
    times = least_seconds(runs, seconds, progress)
    durations = {
        count: _difference(times, "multiply_add", count, MULTIPLY_ADD_DISPATCHES) for count in counts
    }

    def seconds_of(workgroups: int) -> float:
        if workgroups not in durations:
            chains = _chains(programs, "multiply_add", workgroups, columns)
            measured = least_seconds(chains, 0.0, lambda _: None)
            durations[workgroups] = _difference(measured, "multiply_add", workgroups, MULTIPLY_ADD_DISPATCHES)
        return durations[workgroups]

    saturates = target.max_threads >= SATURATING_THREADS
    multiprocessors = resident_workgroups(seconds_of, counts[-1]) if saturates else None
    # Most of this time is work: where the difference says otherwise, it is noise.
    with_launch = times[f"multiply_add {counts[-1]} long"] / max(MULTIPLY_ADD_DISPATCHES)
    duration = durations[counts[-1]] if durations[counts[-1]] > with_launch / 2 else with_launch
    return counts[-1] * workgroup_multiply_adds(target) / duration, multiprocessors


def _growing(least: int, most: int, factor: float, bind: Callable[[int], Callable[[], Any]]) -> Iterator[int]:
    """Numbers from `least` to `most`, up to the first whose call takes long."""
    number, steps = max(1, least), 0
    while number <= most:
        yield number
        call = bind(number)
        call()
        start = time.perf_counter()
        call()
        if time.perf_counter() - start > MAX_CALL:
            return
        steps += 1
        number = round(max(1, least) * factor**steps)


def _chains(programs: DevicePrograms, name: str, rows: int, columns: int) -> dict[str, Callable[[], Any]]:
    return {
        f"{name} {rows} {length}": programs.bind(f"{name}_{length}", rows, columns)
        for length in ("short", "long")
    }


def _difference(times: Mapping[str, float], name: str, rows: int, dispatches: tuple[int, int]) -> float:
    """Seconds of one dispatch of a chain, at least a nanosecond."""
    fewer, more = dispatches
    return max(1e-9, (times[f"{name} {rows} long"] - times[f"{name} {rows} short"]) / (more - fewer))
