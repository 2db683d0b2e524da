"""A compiled program as a module of IREE's runtime."""

from __future__ import annotations

import mmap
from os import PathLike
from typing import Any

from iree import runtime


def program_module(instance: Any, program: bytes | str | PathLike[str]) -> Any:
    """The `VmModule` of a .vmfb, given as its bytes or as its path, whose file is mapped into memory.

    Raises OSError, and what IREE raises where it isn't a program.
    """
    if isinstance(program, bytes):
        return runtime.VmModule.copy_buffer(instance, program)
    # Not `VmModule.mmap`: what that makes calls a method when it is released. Where an exception does that,
    # it is lost, and Python 3.12 ends by SIGABRT.
    return runtime.VmModule.wrap_buffer(instance, mapped_file(program))


def mapped_file(path: str | PathLike[str]) -> mmap.mmap:
    """The content of a file, to read. Raises OSError, and ValueError where it is empty."""
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
