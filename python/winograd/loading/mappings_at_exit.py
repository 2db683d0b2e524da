"""Memory that programs are mapped to, which has to stay when the interpreter ends."""

from __future__ import annotations

import mmap
import time
import weakref

from iree.winograd.loading.kept_objects import keep_for_good


class Mappings:
    """The memory of programs. It goes back to the system with the last that needs it.

    IREE lets go of it in a destructor of C++, in which Python, as it unmaps it, lets go of its lock. Python
    ends a daemon thread that asks for the lock again after the interpreter's end, and a destructor that is
    left that way is the end of the process with SIGABRT.
    """

    def __init__(self) -> None:
        self._mapped: set[weakref.ref[mmap.mmap]] = set()

    def add(self, mapping: mmap.mmap) -> None:
        """Note the memory of a program."""
        # Called once it is unmapped, in a destructor still: a method of Python's own keeps the lock.
        self._mapped.add(weakref.ref(mapping, self._mapped.discard))

    def keep(self, seconds: float) -> None:
        """Never unmap what is mapped. Returns when what other threads unmap is."""
        going = []
        for reference in list(self._mapped):
            mapping = reference()
            if mapping is None:
                going.append(reference)
            else:
                keep_for_good(mapping)
        last = time.monotonic() + seconds
        while not self._mapped.isdisjoint(going) and time.monotonic() < last:
            time.sleep(0.001)

    def forget(self) -> None:
        """Of a forked process, which has none of the threads that unmap."""
        self._mapped.difference_update([each for each in self._mapped if each() is None])


MAPPINGS = Mappings()
"""Those of the process."""
