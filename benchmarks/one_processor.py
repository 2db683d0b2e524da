"""Keeps what is timed on one processor."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def on_one_processor() -> Iterator[None]:
    """All threads of this process, and processes that it starts, run on the first processor it may use.

    Processors of a virtual machine differ, and change for seconds, by half in speed, with what else their
    cores do: on one and the same, contenders that take turns differ by themselves. Linux only.
    """
    available = os.sched_getaffinity(0)
    _bind_all_threads({min(available)})
    try:
        yield
    finally:
        _bind_all_threads(available)


def _bind_all_threads(processors: set[int]) -> None:
    for task in Path("/proc/self/task").iterdir():
        # A thread may have ended by now.
        with suppress(ProcessLookupError):
            os.sched_setaffinity(int(task.name), processors)
