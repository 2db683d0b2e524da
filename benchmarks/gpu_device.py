"""A GPU that benchmarks time calls on: waited for, kept busy, for one process at once."""

from __future__ import annotations

import contextlib
import fcntl
import gc
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_PROFILED = 5
"""Calls whose kernels are timed."""
_LONGEST = 12
"""Kernels of a tool that are listed."""
_BUSY_SECONDS = 0.4
"""An idle GPU has a fifth of its clock rate."""


def device_name(device: str) -> str:
    """What a device calls itself."""
    import torch

    return torch.cuda.get_device_name() if device == "cuda" else "a CPU"


def waiting(device: str) -> Callable[[], None]:
    """What waits for all that was begun on a device."""
    import torch

    return torch.cuda.synchronize if device == "cuda" else lambda: None


@contextlib.contextmanager
def alone(folder: str, device: str) -> Iterator[None]:
    """While no other process that shares the folder does anything but to compile."""
    with Path(folder, "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
        waiting(device)()


def keep_busy(device: str) -> None:
    """Has a GPU work until it has the clock rate of one at work."""
    import torch

    if device != "cuda":
        return
    matrix = torch.randn(4096, 4096, device=device, dtype=torch.float16)
    begin = time.perf_counter()
    while time.perf_counter() - begin < _BUSY_SECONDS:
        torch.mm(matrix, matrix)
        torch.cuda.synchronize()


def free_memory(device: str) -> None:
    """Leave the other networks what this one doesn't use of the memory that it has."""
    import torch

    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()


def allow_tf32(allowed: bool) -> None:
    import torch

    torch.backends.cudnn.allow_tf32 = allowed
    torch.backends.cuda.matmul.allow_tf32 = allowed


def kernel_facts(run: Callable[[], Any]) -> dict[str, Any]:
    """Milliseconds of a call's kernels, how many these are, and the longest by name, count, microseconds."""
    from benchmarks.gpu_kernel_times import kernel_times

    times = kernel_times(run, _PROFILED)
    return {
        "kernel_milliseconds": 1e-3 * sum(each.total for each in times),
        "kernels": sum(each.count for each in times),
        "longest": [(each.name[:100], each.count, each.microseconds) for each in times[:_LONGEST]],
    }
