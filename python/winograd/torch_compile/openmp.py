"""The threads of OpenMP that torch's operators run on."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path

import torch
from iree.winograd.pipelines.machines.host import available_processors

_SOFT_PAUSE = 1
"""`omp_pause_soft`: what the threads know of OpenMP's settings stays."""


def release_processors(threads: int | None) -> None:
    """Have torch's threads that wait for work end, if they and `threads` of a program are too many.

    They wait by spinning, for up to some milliseconds, and workers, or helpers, would share processors with
    them. torch starts others when it next needs them, in tens of microseconds each. A single thread of a
    program is the caller.
    """
    waiting = torch.get_num_threads() - 1
    if threads is not None and threads > 1 and waiting and threads + waiting > available_processors():
        _pause()(_SOFT_PAUSE)


@cache
def _pause() -> Callable[[int], object]:
    """`omp_pause_resource_all` of the OpenMP 5 library that torch is linked with, if it is."""
    for path in (Path(torch.__file__).parent / "lib").glob("libtorch_cpu.*"):
        try:
            # Symbols of a library are also looked for in those that it needs.
            pause: Callable[[int], object] = ctypes.CDLL(str(path)).omp_pause_resource_all
        except (AttributeError, OSError):
            continue
        return pause
    return lambda kind: None
