"""How long a GPU's kernels take, by CUPTI through torch's profiler."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

_COPIES = ("Memcpy", "Memset")


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
