"""Threads that help a caller with the workgroups of its kernels, in memory that both look at."""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
import weakref
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
from iree import runtime
from iree.runtime import version
from iree.winograd.loading.caller_scheduling import c_library
from iree.winograd.loading.kept_objects import keep_for_good
from iree.winograd.pipelines.machines.host import WORKER_MEMORY
from iree.winograd.pipelines.problems.helpers import (
    FUTEX,
    HELPER_FUNCTION,
    HELPERS_FUNCTION,
    MAILBOX_BYTES,
    SLEEPING,
    STOPPED,
    WAKE,
)
from iree.winograd.pipelines.problems.reflection import ORDERED_VERSIONS

_PAGE_BYTES = 4096
_ALL = 2**31 - 1
"""Threads to be woken: those that nobody knows of, too."""
_RUN = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)


class Helpers:
    """`count` threads that take workgroups of whatever program of a device is called.

    They run code of one of these, and of another when that one is gone.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._ended = False
        """Whether no threads begin any more."""
        self._mailbox = _pages(MAILBOX_BYTES)
        self._memory = [_pages(WORKER_MEMORY) for _ in range(count)]
        self.begin()
        _STARTED.add(self)

    def begin(self) -> None:
        """Be without programs and threads, also in a process that was forked, which has none of the threads.

        There the mailbox may say that one is at work, for whom callers would wait for ever, a lock may be
        held by one, and programs are on a device that is opened anew.
        """
        self._mailbox[:] = 0
        self._code: dict[weakref.ref[object], tuple[int, Any]] = {}
        """Of programs, the addresses of what helpers run, and contexts that keep it until they left it."""
        self._gone: list[weakref.ref[object]] = []
        """Programs that helpers have to leave."""
        self._runs: weakref.ref[object] | None = None
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        """Held while programs or threads come and go."""

    @staticmethod
    def are_admitted(module: Any) -> bool:
        """Whether kernels of a module of the runtime's share their workgroups."""
        return version.VERSION.startswith(ORDERED_VERSIONS) and HELPERS_FUNCTION in module.function_names

    def attach(self, holder: object, context: Any, module: Any, view: Any) -> bool:
        """Have kernels of the module share their workgroups, in a `context` that `holder` keeps.

        Returns whether they do: not those that IREE's own tools translated, without our passes. `view` gives
        a buffer view on an array's memory. Raises one of `RUNTIME_ERRORS`.
        """
        arguments, results = runtime.VmVariantList(1), runtime.VmVariantList(1)
        arguments.push_ref(view(self._mailbox.view(np.int32)))
        try:
            return self._attach(holder, context, module, arguments, results)
        finally:
            self._leave_gone()

    def _attach(self, holder: object, context: Any, module: Any, arguments: Any, results: Any) -> bool:
        with self._lock:
            self._mailbox[HELPER_FUNCTION : HELPER_FUNCTION + 8] = 0
            context.invoke(module.lookup_function(HELPERS_FUNCTION), arguments, results)
            address = int(self._field(HELPER_FUNCTION, np.uint64))
            if not address:
                return False
            # A finalizer of Python's isn't called once the interpreter begins to end, with threads at work.
            self._code[weakref.ref(holder, self._detach)] = address, context
            self._start()
        return True

    def stop(self) -> None:
        """Have the threads end, and wait for that; callers do without them."""
        try:
            with self._lock:
                self._stop()
        finally:
            self._leave_gone()

    def _stop(self) -> None:
        self._mailbox[STOPPED] = 1
        self._mailbox[SLEEPING : SLEEPING + 4] = 0
        address = ctypes.c_void_p(self._mailbox.ctypes.data + SLEEPING)
        c_library().syscall(FUTEX, address, WAKE, _ALL, None)
        interrupts = [each for thread in self._threads if (each := _joined(thread)) is not None]
        self._mailbox[STOPPED] = 0
        self._threads, self._runs = [], None
        if interrupts:
            raise interrupts[0]

    def end(self) -> None:
        """As `stop`, for good."""
        self._ended = True
        self.stop()

    def _detach(self, program: weakref.ref[object]) -> None:
        """The program is gone."""
        self._gone.append(program)
        self._leave_gone()

    def _leave_gone(self) -> None:
        """Have helpers run no code of programs that are gone, or leave that to who holds the lock.

        That one may wait for this thread, or be this thread: the collector runs wherever Python does, also
        in helpers, while they begin and end. One that has begun can't wait for its own end, and leaves
        programs to who loads or drops the next.
        """
        if threading.get_ident() in [thread.ident for thread in self._threads]:
            return
        while self._gone and self._lock.acquire(blocking=False):
            try:
                # Others may have been as fast.
                with suppress(IndexError):
                    program = self._gone.pop()
                    _context = self._code.pop(program, None)
                    if self._runs is program:
                        self._stop()
                        self._start()
            finally:
                self._lock.release()

    def _start(self) -> None:
        """Have the threads run code of some program, if they don't run that of one."""
        if self._threads or self._ended:
            return
        for reference in list(self._code):
            # It stays there while it is held here. What is gone is about to be detached.
            holder = reference()
            if holder is not None:
                self._run(reference, holder)
                return

    def _run(self, program: weakref.ref[object], holder: object) -> None:
        self._runs = program
        address, _context = self._code[program]
        run = _RUN(address)
        for number, memory in enumerate(self._memory):
            places = (self._mailbox.ctypes.data, memory.ctypes.data)
            # What they run isn't Python: at its end they sleep, or are stopped.
            thread = threading.Thread(target=run, args=places, name="helper", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                # The system has no thread left, or the interpreter ends: callers do without.
                return
            except BaseException:
                # Ctrl-C: it may run, but isn't known to. So it keeps what it runs, and its memory.
                keep_for_good((self, holder, memory))
                self._memory[number] = _pages(WORKER_MEMORY)
                raise
            self._threads.append(thread)

    def _field(self, place: int, dtype: npt.DTypeLike) -> Any:
        (value,) = self._mailbox[place : place + np.dtype(dtype).itemsize].view(dtype)
        return value


_STARTED: weakref.WeakSet[Helpers] = weakref.WeakSet()


def _end_all() -> None:
    for helpers in list(_STARTED):
        helpers.end()


def _begin_all() -> None:
    for helpers in list(_STARTED):
        helpers.begin()


# Code that they run is unmapped when the interpreter frees programs.
atexit.register(_end_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_all)


def _joined(thread: threading.Thread) -> BaseException | None:
    """Wait for a thread to end, whatever interrupts that; returns what did."""
    interrupt = None
    while True:
        try:
            thread.join()
            return interrupt
        except BaseException as error:
            interrupt = error


def _pages(size: int) -> npt.NDArray[np.uint8]:
    """Zeros that begin a page."""
    memory = np.zeros(size + _PAGE_BYTES, np.uint8)
    first = -memory.ctypes.data % _PAGE_BYTES
    return memory[first : first + size]
