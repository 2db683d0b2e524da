"""What the cost models know of a machine: rates, sizes and fixed costs, measured or shipped as defaults."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class CacheLevel:
    """A level of the memory hierarchy as one core sees it.

    Raises ValueError for sizes or rates that are not positive.
    """

    size: int
    """Bytes that it holds."""
    bandwidth: float
    """Bytes per second that one core reads from it."""

    def __post_init__(self) -> None:
        if self.size <= 0 or self.bandwidth <= 0:
            raise ValueError(f"a cache level needs a positive size and bandwidth, not {self}")


@dataclass(frozen=True)
class Bandwidth:
    """That of one level of the memory hierarchy."""

    name: str
    size: int | None
    """Bytes that the level holds; None for memory."""
    bytes_per_second: float


@dataclass(frozen=True)
class Limits:
    """What no kernel exceeds: the lines of a roofline plot, bandwidths from the innermost on."""

    operations_per_second: float
    bandwidths: tuple[Bandwidth, ...]


MAX_WORKGROUPS_AT_A_TIME = 8
"""That IREE's runtime gives a thread."""


@dataclass(frozen=True)
class CpuMachine:
    """A CPU: all rates are those of one core when it works alone, all times are in seconds.

    Raises ValueError for rates or times that are not positive, and for caches that don't grow.
    """

    name: str
    """LLVM's name of the processor."""
    flops: float
    """f32 operations per second in registers, a fused multiply-add counted as two."""
    clock: float
    """Cycles per second."""
    caches: tuple[CacheLevel, ...]
    """From the innermost on."""
    memory_bandwidth: float
    """Bytes per second read from memory by one core."""
    shared_memory_bandwidth: float
    """Bytes per second read from memory by all cores together."""
    dispatch_seconds: float
    """From the end of one dispatch to the start of the next, on the thread that runs both."""
    wake_seconds: float
    """Until the last of the other threads starts its part of a dispatch."""
    cores: int
    """Threads that gain from each other."""
    multiply_add_latency: float = 4
    """Cycles until a sum can be added to again."""
    loads_per_cycle: float = 2
    """Vectors that a core starts to load in a cycle."""
    bf16_flops: float | None = None
    """bf16 operations per second, of vectors of pairs that are summed in f32, a product and its addition
    counted as two; None where they aren't known, or there are no such instructions."""
    workgroups_at_a_time: int = MAX_WORKGROUPS_AT_A_TIME
    """That IREE's runtime gives one of several threads of a dispatch that has at least so many for each."""
    kind: str = "cpu"

    def __post_init__(self) -> None:
        _require_positive(self)
        if not self.caches or any(
            inner.size >= outer.size for inner, outer in zip(self.caches, self.caches[1:], strict=False)
        ):
            raise ValueError(f"caches must be given from the innermost, smallest one on: {self.caches}")

    def bandwidth(self, size: int) -> float:
        """Bytes per second at which one core reads `size` bytes again and again."""
        for cache in self.caches:
            if size <= cache.size:
                return cache.bandwidth
        return self.memory_bandwidth

    def limits(self, threads: int) -> Limits:
        """Those of so many threads together."""
        threads = min(threads, self.cores)
        caches = (
            Bandwidth(f"L{level}", cache.size, threads * cache.bandwidth)
            for level, cache in enumerate(self.caches, start=1)
        )
        shared = min(threads * self.memory_bandwidth, self.shared_memory_bandwidth)
        return Limits(threads * self.flops, (*caches, Bandwidth("memory", None, shared)))


@dataclass(frozen=True)
class GpuMachine:
    """A GPU. Raises ValueError for rates, sizes or times that are not positive."""

    name: str
    """The target's architecture, e.g. "sm_90"."""
    flops: float
    """f32 operations per second in registers, a fused multiply-add counted as two."""
    multiprocessors: int
    cache_size: int
    """Bytes of the last-level cache."""
    cache_bandwidth: float
    """Bytes per second, of the last-level cache."""
    memory_bandwidth: float
    """Bytes per second, read and written together."""
    launch_seconds: float
    """From the start of a kernel that does next to nothing to that of the next, which depends on it."""
    matrix_flops: float | None = None
    """Operations per second of fp16 with sums in f32 on matrix units; None where they aren't known."""
    kind: str = "gpu"

    def __post_init__(self) -> None:
        _require_positive(self)

    def bandwidth(self, size: int) -> float:
        """Bytes per second at which `size` bytes, written just before, are read."""
        return self.cache_bandwidth if size <= self.cache_size else self.memory_bandwidth

    def limits(self) -> Limits:
        cache = Bandwidth("cache", self.cache_size, self.cache_bandwidth)
        return Limits(self.flops, (cache, Bandwidth("memory", None, self.memory_bandwidth)))


Machine = CpuMachine | GpuMachine

KINDS = {"cpu": "a CPU", "gpu": "a GPU"}
"""What the kinds of machines are called."""


def machine_to_json(machine: Machine) -> str:
    """What `machine_from_json` reads back."""
    return json.dumps(asdict(machine), indent=1) + "\n"


def machine_from_json(text: str) -> Machine:
    """The machine of a text. Raises ValueError, naming what is wrong, when it isn't one."""
    try:
        values: dict[str, Any] = json.loads(text)
        kind = values.get("kind")
        if kind == "gpu":
            return GpuMachine(**values)
        if kind == "cpu":
            return CpuMachine(**values | {"caches": tuple(CacheLevel(**level) for level in values["caches"])})
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(f"not the description of a machine: {error}") from None
    raise ValueError(f"the kind of a machine must be 'cpu' or 'gpu', not {kind!r}")


def _require_positive(machine: Machine) -> None:
    for name, value in vars(machine).items():
        if isinstance(value, int | float) and value <= 0:
            raise ValueError(f"{name} must be positive, not {value}")
