"""Threads of IREE's compiler: those of the process that used it first, and when they have to rest."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from iree.winograd.dialect.bindings import c_library, c_pointer, ir

_number_of_threads = c_library.mlirContextGetNumThreads
_number_of_threads.restype, _number_of_threads.argtypes = ctypes.c_uint, [ctypes.c_void_p]


def use_own_threads(context: ir.Context) -> None:
    """Have a context of a fork work on the calling thread: it would wait for its parent's for ever."""
    if os.getpid() != _first_process():
        context.enable_multithreading(False)


@contextmanager
def on_calling_thread(context: ir.Context) -> Iterator[None]:
    """Have a context work on the calling thread meanwhile, which has the interpreter's lock.

    MLIR's bindings keep that while passes and verifiers run. A worker with a diagnostic for a handler in
    Python would wait for it, and the calling thread for the worker, for ever.
    """
    has_workers = _number_of_threads(c_pointer(context)) > 1
    context.enable_multithreading(False)
    try:
        yield
    finally:
        if has_workers:
            context.enable_multithreading(True)


@cache
def _first_process() -> int:
    return os.getpid()
