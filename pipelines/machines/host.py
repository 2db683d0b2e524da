"""How many threads this machine runs side by side."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from .quota import processor_quota
from .units import MEBIBYTE

WORKER_MEMORY = 2 * MEBIBYTE
"""Of its own that each worker of a CPU gets from `load`, so that a workgroup may not need more."""

_TOPOLOGY = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"


def available_processors() -> int:
    """Logical processors that this process may run on, at most as many as its quota of time keeps busy."""
    return _within_quota(len(_processors()))


def physical_cores() -> int:
    """The cores among the processors that this process may use; the processors where Linux doesn't say.

    At most as many as its quota of time keeps busy.
    """
    return _within_quota(len(one_processor_per_core()))


def one_processor_per_core() -> list[int]:
    """A processor that this process may use of each core; all of them where Linux doesn't say."""
    processors = sorted(_processors())
    siblings = [Path(_TOPOLOGY.format(processor)) for processor in processors]
    if not all(path.exists() for path in siblings):
        return processors
    first = {path.read_text(): processor for path, processor in zip(siblings, processors, strict=True)}
    return sorted(first.values())


def _processors() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        # Some sandboxes don't let a process ask.
        with suppress(OSError):
            processors: set[int] = os.sched_getaffinity(0)
            return processors
    return set(range(os.cpu_count() or 1))


def _within_quota(processors: int) -> int:
    quota = processor_quota()
    return processors if quota is None else max(1, min(processors, round(quota)))
