"""A compiled program as a module of IREE's runtime."""

from __future__ import annotations

import contextlib
import mmap
import sys
from os import PathLike
from typing import Any

import numpy as np
from iree import runtime
from iree.winograd.loading.mappings_at_exit import MAPPINGS

HUGE_PAGE_BYTES = 2 << 20
"""Of x86, and of Arm with pages of 4 KiB."""


def program_module(instance: Any, program: bytes | str | PathLike[str]) -> Any:
    """The `VmModule` of a .vmfb, given as its bytes or as its path, whose file is mapped into memory.

    Bytes are copied. Raises OSError, and what IREE raises where it isn't a program.
    """
    if isinstance(program, bytes):
        if sys.platform != "linux" or len(program) < HUGE_PAGE_BYTES:
            return runtime.VmModule.copy_buffer(instance, program)
        return runtime.VmModule.wrap_buffer(instance, in_huge_pages(program))
    # Not `VmModule.mmap`: what that makes calls a method when it is released. Where an exception does that,
    # it is lost, and Python 3.12 ends by SIGABRT.
    mapping = mapped_file(program)
    MAPPINGS.add(mapping)
    return runtime.VmModule.wrap_buffer(instance, mapping)


def in_huge_pages(content: bytes) -> memoryview:
    """A copy that begins at a huge page, and lies in such pages if Linux has some.

    Weights that are read once in a call come faster: more of them are known by their pages. The memory of a
    process that Linux has no huge page for is that of any other. Raises OSError where there is none, and on
    other systems.
    """
    if sys.platform != "linux":
        raise OSError("huge pages are asked for on Linux")
    copy = mmap.mmap(-1, len(content) + HUGE_PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    MAPPINGS.add(copy)
    first = -np.frombuffer(copy, np.uint8).ctypes.data % HUGE_PAGE_BYTES
    # Refused by kernels without huge pages.
    with contextlib.suppress(OSError):
        copy.madvise(mmap.MADV_HUGEPAGE)
    copied = memoryview(copy)[first : first + len(content)]
    copied[:] = content
    return copied


def mapped_file(path: str | PathLike[str]) -> mmap.mmap:
    """The content of a file, to read. Raises OSError, and ValueError where it is empty."""
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
