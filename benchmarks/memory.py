"""The memory of this process, as Linux counts it."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Result = TypeVar("Result")


def resident_bytes() -> int:
    """What the process has now, once garbage is collected and freed memory is returned."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return _status("VmRSS")


def with_peak(call: Callable[[], Result]) -> tuple[Result, int]:
    """What `call` gives, and the most that the process had meanwhile."""
    resident_bytes()
    # Resets the peak (proc_pid_clear_refs(5)).
    Path("/proc/self/clear_refs").write_text("5")
    result = call()
    return result, _status("VmHWM")


def _status(name: str) -> int:
    """A number of /proc/self/status, which counts in units of 1024 bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return 1024 * int(line.split()[1])
    raise KeyError(name)
