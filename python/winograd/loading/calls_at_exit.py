"""What other threads do with programs when the interpreter ends."""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from iree.winograd.loading.mappings_at_exit import MAPPINGS


class RunningCalls:
    """The calls of programs that run, loads, and copies to and from devices: IREE lets go of Python's lock.

    Python ends a daemon thread that asks for its lock again after the end, which in the middle of a call of
    IREE's C++ is the end of the process with SIGABRT.
    """

    def __init__(self) -> None:
        self._running: set[object] = set()
        self._ending: int | None = None

    def begin(self) -> object:
        """Note a call, until `end` is given what this returns. At the interpreter's end it doesn't return."""
        call = object()
        # One operation of the interpreter's: it needs no lock.
        self._running.add(call)
        if self._ending is not None and self._ending != threading.get_ident():
            self.end(call)
            threading.Event().wait()
        return call

    def end(self, call: object) -> None:
        """The call has returned."""
        self._running.discard(call)

    @contextmanager
    def one(self) -> Iterator[None]:
        """A call, for as long as the context lasts."""
        call = self.begin()
        try:
            yield
        finally:
            self.end(call)

    def forget(self) -> None:
        """Of a forked process, which has none of the threads that are in calls."""
        self._running.clear()
        MAPPINGS.forget()

    def wait(self, seconds: float) -> None:
        """From here on only this thread calls programs. Returns when the calls of others have returned."""
        self._ending = threading.get_ident()
        last = time.monotonic() + seconds
        while self._running and time.monotonic() < last:
            time.sleep(0.001)


CALLS = RunningCalls()
"""Those of all programs of the process."""

_SECONDS = 10
"""That a process waits for each kind of what daemon threads do when it ends."""


def _end() -> None:
    CALLS.wait(_SECONDS)
    # From here on no other thread maps programs.
    MAPPINGS.keep(_SECONDS)


atexit.register(_end)
