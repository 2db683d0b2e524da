"""Devices of IREE's runtime: whose memory they use, and when they let go of it."""

from __future__ import annotations

import numpy as np
from iree import runtime
from iree.runtime import _binding as binding

MEMORY = int(runtime.MemoryType.DEVICE_LOCAL) | int(runtime.MemoryType.HOST_VISIBLE)
USAGE = int(runtime.BufferUsage.DEFAULT)


def address(buffer: object) -> int:
    mapped = np.frombuffer(buffer.map(), np.uint8)
    return int(mapped.ctypes.data)


def test_memory_of_the_host_is_used_where_it_is() -> None:
    """At whatever address: who says that it is aligned is to see to that."""
    device = binding.create_hal_driver("local-sync").create_default_device()
    memory = np.zeros(1024, np.uint8)
    first = -memory.ctypes.data % 64 + 4
    array = memory[first : first + 256]
    buffer = device.allocator.import_host_allocation(array, memory_type=MEMORY, allowed_usage=USAGE)
    assert address(buffer) == array.ctypes.data


def test_a_cache_gives_memory_of_the_same_size_again() -> None:
    device = binding.create_hal_driver("local-sync").create_default_device(allocators=["caching"])

    def allocated() -> int:
        buffer = device.allocator.allocate_buffer(
            memory_type=MEMORY, allowed_usage=USAGE, allocation_size=1 << 20
        )
        return address(buffer)

    assert allocated() == allocated()
