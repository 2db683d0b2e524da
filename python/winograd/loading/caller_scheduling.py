"""How Linux schedules a thread that calls a program while it waits for workers that share its core."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from enum import Enum
from functools import cache
from typing import Any


class CallerScheduling(Enum):
    """What a calling thread asks of the system, if nothing else was chosen for it."""

    UNCHANGED = "unchanged"
    """Workers leave it a core."""
    BATCH_WORK = "batch work"
    """Until the call returns, it takes no core from a thread that is at work.

    The last worker wakes the caller before it has finished itself, and the caller waits for that without
    sleeping. On the core that it had just taken from that worker it would wait until the system divides time
    anew, after milliseconds. Among many workers there is one whose core it can take, and as batch work it
    would only wait for that.
    """
    SHORT_SLICES = "short slices"
    """It takes a core at once, for short: where many workers take all cores and spin.

    A thread with shorter slices is preferred when it wakes up: since Linux 6.12, which takes them from
    `sched_setattr`; before, nothing changes. It keeps them: to change them with every call costs it its core.
    """

    def applied(self) -> AbstractContextManager[None]:
        """Asks for it while a call is made; does nothing where the system doesn't allow that."""
        if self is CallerScheduling.SHORT_SLICES:
            _keep_short_slices()
        return _as_batch_work() if self is CallerScheduling.BATCH_WORK else nullcontext()


class SchedulingAttributes(ctypes.Structure):
    """`struct sched_attr` of the kernel (sched_setattr(2)), in its first version.

    `runtime` is the slice in nanoseconds of a thread that is scheduled as others are.
    """

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32),
        ("runtime", ctypes.c_uint64),
        ("deadline", ctypes.c_uint64),
        ("period", ctypes.c_uint64),
    )


_SHORT_SLICE_NANOSECONDS = 100_000
"""The least that Linux grants."""

_SYSTEM_CALLS = {"x86_64": (314, 315), "aarch64": (274, 275)}
"""Numbers of sched_setattr and sched_getattr, which the C library has no functions for."""


def scheduling_attributes() -> SchedulingAttributes | None:
    """Those of the calling thread, or None where the system doesn't tell."""
    attributes = SchedulingAttributes(size=ctypes.sizeof(SchedulingAttributes))
    numbers = _system_calls()
    if numbers is None:
        return None
    refused = c_library().syscall(numbers[1], 0, ctypes.byref(attributes), attributes.size, 0)
    return None if refused else attributes


def set_attributes(attributes: SchedulingAttributes) -> None:
    """Give the calling thread these, where the system allows that."""
    numbers = _system_calls()
    if numbers is not None:
        c_library().syscall(numbers[0], 0, ctypes.byref(attributes), 0)


_THREAD = threading.local()
"""Whether the thread has been given short slices: once is enough."""


def _keep_short_slices() -> None:
    if hasattr(_THREAD, "has_short_slices"):
        return
    attributes = scheduling_attributes()
    if sys.platform == "linux" and attributes is not None and attributes.policy == os.SCHED_OTHER:
        attributes.runtime = _SHORT_SLICE_NANOSECONDS
        set_attributes(attributes)
    _THREAD.has_short_slices = True


@cache
def _system_calls() -> tuple[int, int] | None:
    return _SYSTEM_CALLS.get(platform.machine()) if sys.platform == "linux" else None


@cache
def c_library() -> Any:
    return ctypes.CDLL(None)


@contextmanager
def _as_batch_work() -> Iterator[None]:
    if not _become_batch_work():
        yield
        return
    try:
        yield
    finally:
        if sys.platform == "linux":
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def _become_batch_work() -> bool:
    """Whether the calling thread now counts as batch work, and didn't before."""
    if sys.platform != "linux":
        return False
    # Some sandboxes don't let a thread change, or even ask, how it is scheduled.
    with suppress(OSError):
        if os.sched_getscheduler(0) != os.SCHED_OTHER:
            return False
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        return True
    return False
