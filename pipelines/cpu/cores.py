"""How many threads this machine runs side by side."""

from __future__ import annotations

import os
from pathlib import Path

_TOPOLOGY = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"


def physical_cores() -> int:
    """The cores among the processors that this process may use; the processors where Linux doesn't say."""
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    processors = os.sched_getaffinity(0)
    siblings = [Path(_TOPOLOGY.format(processor)) for processor in processors]
    if not all(path.exists() for path in siblings):
        return len(processors)
    return len({path.read_text() for path in siblings})
