"""Memory of the host that results of a GPU come through, kept from call to call."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from iree import runtime
from iree.winograd.pipelines.machines.units import MEBIBYTE

_MOST_BYTES = 256 * MEBIBYTE
"""That are kept while no result comes through them."""
_MEMORY = int(runtime.MemoryType.HOST_LOCAL) | int(runtime.MemoryType.DEVICE_VISIBLE)
_USAGE = int(runtime.BufferUsage.TRANSFER_TARGET) | int(runtime.BufferUsage.MAPPING_SCOPED)


class StagingMemory:
    """Buffers that the host maps and a device writes to: a driver takes a millisecond to make one.

    May be used by several threads at a time.
    """

    def __init__(self, hal: Any) -> None:
        self._free: dict[int, list[Any]] = {}
        """Those of each size, the last ones used of those of a size first."""
        self._free_bytes = 0
        self._lock = threading.Lock()
        # Freed after the buffers, which are in its memory.
        self._hal = hal

    @contextmanager
    def buffer(self, size: int) -> Iterator[Any]:
        """One of so many bytes, for as long as the context lasts."""
        with self._lock:
            kept = self._free.get(size)
            found = kept.pop() if kept else None
            self._free_bytes -= 0 if found is None else size
        if found is None:
            found = self._hal.allocator.allocate_buffer(
                memory_type=_MEMORY, allowed_usage=_USAGE, allocation_size=size
            )
        yield found
        with self._lock:
            if self._free_bytes + size <= _MOST_BYTES:
                self._free.setdefault(size, []).append(found)
                self._free_bytes += size
