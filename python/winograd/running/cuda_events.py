"""When a GPU of NVIDIA's ran which kernel: not IREE's own tools tell, but CUPTI, by way of torch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from iree.winograd.errors import CallError

_WARM_SECONDS = 0.3
"""An idle GPU has a fifth of its clock rate."""
_NO_KERNELS = ("Memcpy", "Memset")
"""What names of activities begin with that aren't kernels."""


def cuda_events(call: Callable[[], Any], calls: int) -> list[Mapping[str, Any]]:
    """The kernels of so many calls in order, as IREE's tools tell those of other devices.

    Raises `CallError` where torch for CUDA isn't installed.
    """
    try:
        import torch
        from torch.profiler import ProfilerActivity, profile
    except ImportError as error:
        raise CallError(f"profiles on CUDA take torch, whose profiler has CUPTI: {error}") from error
    if not torch.cuda.is_available():
        raise CallError("profiles on CUDA take a torch that is built for it, whose profiler has CUPTI")
    begin = time.perf_counter()
    while time.perf_counter() - begin < _WARM_SECONDS:
        call()
    with profile(activities=[ProfilerActivity.CUDA]) as recorded:
        for _ in range(calls):
            call()
        torch.cuda.synchronize()
    return list(kernels_of(each for each in recorded.events() if each.device_type.name == "CUDA"))


def kernels_of(activities: Iterable[Any]) -> Iterator[Mapping[str, Any]]:
    """Those of torch's events of a GPU, whose times are microseconds, that are kernels, in order."""
    kernels = [each for each in activities if not each.name.startswith(_NO_KERNELS)]
    for number, kernel in enumerate(sorted(kernels, key=lambda each: each.time_range.start)):
        yield {
            "event_id": number,
            "key": kernel.name,
            "start_host_time_ns": 1e3 * kernel.time_range.start,
            "duration_ns": 1e3 * (kernel.time_range.end - kernel.time_range.start),
            "physical_device_ordinal": kernel.device_index,
            "queue_ordinal": 0,
            "workgroup_count": None,
        }
