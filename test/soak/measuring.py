"""What a process holds, and whether it holds more and more."""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

_PROCESS = Path("/proc/self")


@dataclass(frozen=True)
class Holdings:
    """What the process holds: bytes that are resident, and how many threads, open files and objects.

    Objects are those that have come since `settle`.
    """

    resident: int
    threads: int
    files: int
    objects: int


def settle() -> None:
    """Have the collector leave alone what there is, most of it torch's: that took a third of a round."""
    gc.collect()
    gc.freeze()


def holdings() -> Holdings:
    """Those of now, without garbage, and without what the C library keeps of freed memory."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    pages = int((_PROCESS / "statm").read_text().split()[1])
    threads, files = (len(os.listdir(_PROCESS / name)) for name in ("task", "fd"))
    return Holdings(pages * os.sysconf("SC_PAGESIZE"), threads, files, len(gc.get_objects()))


def growth(measured: Sequence[Holdings], quantity: Callable[[Holdings], int]) -> float:
    """By how much a quantity has grown since the first tenth, over what it was then.

    Compared are the medians of the first and the last third of what follows that tenth: single values hold
    what happens to be under way.
    """
    settled = [quantity(each) for each in measured[len(measured) // 10 :]]
    third = max(1, len(settled) // 3)
    return median(settled[-third:]) / median(settled[:third]) - 1
