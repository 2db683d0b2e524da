"""Threads of IREE's compiler: those of the process that used it first, which its forks don't have."""

from __future__ import annotations

import os
from functools import cache

from iree.winograd.dialect.bindings import ir


def use_own_threads(context: ir.Context) -> None:
    """Have a context of a fork work on the calling thread: it would wait for its parent's for ever."""
    if os.getpid() != _first_process():
        context.enable_multithreading(False)


@cache
def _first_process() -> int:
    return os.getpid()
