"""An end at once, with nothing unfinished left behind, when a process is interrupted."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from iree.winograd.atomic_file import remove_unfinished

INTERRUPTED = 128 + signal.SIGINT
"""The exit code that shells give for an interrupt."""


@contextmanager
def silent_interrupts() -> Iterator[None]:
    """An interrupt meanwhile ends the process at once, as one that has nothing to tidy up yet.

    Python would say where it was, and extension modules that are half loaded may end by an abort. Signals
    that others handle, or threads other than the main one, are left alone.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def end_on_interrupt() -> None:
    """From now on an interrupt, or a request to end, ends the process, whatever the compiler is doing.

    Python itself would wait for the compiler to return. The exit code is what shells say: 130 for an
    interrupt.
    """
    reading, writing = os.pipe()
    if sys.platform != "win32":
        # What Python asks of pipes, which Windows has no such ones of.
        os.set_blocking(writing, False)
    # The handler in C, which writes to the pipe, is there as long as there is one in Python.
    _handle(lambda number, frame: None)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    threading.Thread(target=_end, args=(reading,), daemon=True).start()
    # A thread that wakes up while the interpreter ends may crash it.
    atexit.register(_handle, signal.SIG_DFL)


def _handle(handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> None:
    """Have a handler for an interrupt and for a request to end, but for what is ignored."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, handler)


def _end(reading: int) -> None:
    (number,) = os.read(reading, 1)
    remove_unfinished()
    with suppress(OSError, AttributeError):
        sys.stderr.write("\ninterrupted\n")
        sys.stderr.flush()
    os._exit(128 + number)
