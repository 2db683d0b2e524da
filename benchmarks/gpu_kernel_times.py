"""How long a GPU's kernels take, by CUPTI through torch's profiler."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

_COPIES = ("Memcpy", "Memset")
COPIED_BYTES = 1 << 30
_MATRIX = 8192
"""Rows and columns of matrices whose product shows what units multiply at most."""


@dataclass(frozen=True)
class KernelTime:
    """A kernel of a call: its name, how many times a call runs it, and microseconds of one run."""

    name: str
    count: float
    microseconds: float

    @property
    def total(self) -> float:
        """Microseconds in a call."""
        return self.count * self.microseconds


def kernel_times(call: Callable[[], object], rounds: int) -> list[KernelTime]:
    """Of all kernels of a warm call, but not of copies, by medians; those that take most of a call first."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(rounds):
            call()
        torch.cuda.synchronize()
    durations: Mapping[str, list[float]] = defaultdict(list)
    for event in profile.events():
        if event.device_type == torch.autograd.DeviceType.CUDA and not event.name.startswith(_COPIES):
            durations[event.name].append(event.device_time)
    times = [
        KernelTime(name, len(each) / rounds, statistics.median(each)) for name, each in durations.items()
    ]
    return sorted(times, key=lambda time: -time.total)


def times_behind(call: Callable[[], object], rounds: int) -> list[KernelTime]:
    """Of each kernel of a warm call, in order, from the end of the one before to its own, by medians.

    That is what it adds to a call: one that was launched early may have begun before the other ended. Of the
    first it is all of its own time. Raises ValueError where calls don't run the same number of kernels.
    """
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(rounds):
            call()
            torch.cuda.synchronize()
    events = sorted(
        (
            event
            for event in profile.events()
            if event.device_type == torch.autograd.DeviceType.CUDA and not event.name.startswith(_COPIES)
        ),
        key=lambda event: event.time_range.start,
    )
    count, left = divmod(len(events), rounds)
    if left:
        raise ValueError(f"{rounds} calls ran {len(events)} kernels")
    calls = [events[first : first + count] for first in range(0, len(events), count)]
    times = []
    for number in range(count):
        ends = [
            (call[number].time_range.start if number == 0 else call[number - 1].time_range.end)
            for call in calls
        ]
        taken = [call[number].time_range.end - end for call, end in zip(calls, ends, strict=True)]
        times.append(KernelTime(calls[0][number].name, 1, statistics.median(taken)))
    return times


def copy_microseconds(size: int, rounds: int) -> float:
    """Of one kernel that reads so many bytes and writes as many."""
    source = torch.zeros(size // 4, device="cuda")
    target = torch.zeros_like(source)
    return sum(each.total for each in kernel_times(lambda: torch.add(source, 1.0, out=target), rounds))


@dataclass(frozen=True)
class Peaks:
    """What a GPU does at most in a microsecond: bytes that are read or written, and operations."""

    bytes: float
    matrix_operations: float
    """Of f16 on matrix units, with sums in f32."""
    f32_operations: float
    """Of multiply-adds of f32."""

    @classmethod
    def measured(cls, rounds: int) -> Peaks:
        """By a copy of 1 GiB and by cuBLAS's products of large matrices."""

        def operations(dtype: torch.dtype) -> float:
            left, right = (torch.randn(_MATRIX, _MATRIX, device="cuda", dtype=dtype) for _ in range(2))
            times = kernel_times(lambda: left @ right, rounds)
            return 2 * _MATRIX**3 / sum(each.total for each in times)

        allowed, torch.backends.cuda.matmul.allow_tf32 = torch.backends.cuda.matmul.allow_tf32, False
        try:
            bytes_ = 2 * COPIED_BYTES / copy_microseconds(COPIED_BYTES, rounds)
            return cls(bytes_, operations(torch.float16), operations(torch.float32))
        finally:
            torch.backends.cuda.matmul.allow_tf32 = allowed
