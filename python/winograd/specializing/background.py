"""Work beside calls that neither they nor the end of the interpreter wait for."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from threading import Lock, Thread, current_thread

from iree.winograd.errors import CompilationError

_SECONDS = 10
"""That the end waits for a thread which loads a program: some milliseconds, usually."""


class Background:
    """A thread, the process that it waits for, and a temporary `folder`, until it is closed.

    Raises OSError when there can be no folder.
    """

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="winograd-"))
        self._is_closed = False
        self._owner = os.getpid()
        self._lock = Lock()
        self._thread: Thread | None = None
        self._process: subprocess.Popen[str] | None = None

    @property
    def is_closed(self) -> bool:
        """Whether nothing runs here any more, as in a forked process."""
        return self._is_closed or os.getpid() != self._owner

    def start(self, thread: Thread) -> None:
        """Start a `thread`, after the one before has ended. Raises RuntimeError when there can be none."""
        thread.start()
        self._thread = thread

    def run(self, command: Sequence[str]) -> None:
        """Run a process to its end. Raises `CompilationError` when it fails, or this is closed."""
        with self._lock:
            if self.is_closed:
                raise CompilationError("the interpreter ends")
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                creationflags=getattr(subprocess, "IDLE_PRIORITY_CLASS", 0),
            )
        _, errors = self._process.communicate()
        if self._process.returncode:
            raise CompilationError((errors.strip().splitlines() or ["the compiler was ended"])[-1])

    def close(self) -> None:
        """End the process, the thread with it, and remove the folder; nothing of that in a forked process."""
        if os.getpid() != self._owner:
            return
        with self._lock:
            self._is_closed = True
            if self._process is not None:
                self._process.kill()
        # The thread itself may be the last that needs this.
        if self._thread is not None and self._thread is not current_thread():
            self._thread.join(_SECONDS)
        shutil.rmtree(self.folder, ignore_errors=True)
