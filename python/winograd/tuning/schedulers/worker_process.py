"""A Python process that calls functions for this one, so that a crash or a hang of theirs costs one call.

Run as a module it is that process; its argument is the file descriptor of its end of the connection.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from typing import IO, Any, TypeVar

if sys.platform == "win32":
    from multiprocessing.connection import PipeConnection as _Connection
else:
    from multiprocessing.connection import Connection as _Connection

Result = TypeVar("Result")

_FOLDER_VARIABLES = ("TMPDIR", "TMP", "TEMP")
"""That temporary files go to: Python's first choice, and Windows' own."""


class CallError(Exception):
    """The function raised an exception, whose one-line text this is."""


class WorkerLostError(Exception):
    """The process ended, or was ended because it took too long."""


class WorkerProcess:
    """The process is started by the first call, and anew by the next one after it was lost.

    It has no part in the terminal's signals: an interrupt there is for this process to handle. It ends when
    this process does. Its temporary files, which a compiler that is killed leaves behind, are in a folder of
    its own, which is gone with it. Only `kill` may be called by other threads.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: _Connection | None = None
        self._errors: IO[bytes] | None = None
        self._folder: str | None = None

    def call(self, function: Callable[..., Result], *arguments: Any, timeout: float) -> Result:
        """`function(*arguments)`; all of it has to be picklable. `timeout` is in seconds.

        Raises `CallError` when the function raises and `WorkerLostError` when the process dies or exceeds the
        timeout.
        """
        if self._connection is None:
            self._start()
        assert self._connection is not None
        try:
            self._connection.send((function, arguments))
            if not self._connection.poll(timeout):
                self.close()
                raise WorkerLostError(f"took more than {timeout:.0f} s")
            failure, result = self._connection.recv()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            raise WorkerLostError(self._last_words()) from None
        except BaseException:
            # Its answer would be taken for that of the next call.
            self.close()
            raise
        if failure is not None:
            raise CallError(failure)
        returned: Result = result
        return returned

    def kill(self) -> None:
        """End the process; a call that another thread waits for raises `WorkerLostError`."""
        if self._process is not None:
            self._process.kill()

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        if self._connection is not None:
            self._connection.close()
        if self._errors is not None:
            self._errors.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._process = self._connection = self._errors = self._folder = None

    def _start(self) -> None:
        self._connection, theirs = multiprocessing.Pipe()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        self._folder = tempfile.mkdtemp(prefix="winograd-")
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=self._errors,
            stderr=self._errors,
            env={**os.environ, **dict.fromkeys(_FOLDER_VARIABLES, self._folder)},
            **_passing(theirs.fileno()),
        )
        theirs.close()

    def _last_words(self) -> str:
        """Why the process ended, by its exit code and the last line that it wrote."""
        assert self._process is not None and self._errors is not None
        code = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").splitlines()
        self.close()
        end = f"ended by signal {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return f"{end}: {lines[-1]}" if lines else end


def _passing(end: int) -> Mapping[str, Any]:
    """How a process is started that has an end of a connection, and no part in the terminal's signals."""
    if sys.platform == "win32":
        os.set_handle_inheritable(end, True)
        group = subprocess.CREATE_NEW_PROCESS_GROUP
        handles = subprocess.STARTUPINFO(lpAttributeList={"handle_list": [end]})
        return {"startupinfo": handles, "creationflags": group}
    return {"pass_fds": [end], "start_new_session": True}


def _serve(connection: _Connection) -> None:
    while True:
        try:
            function, arguments = connection.recv()
        except EOFError:
            return
        answer: tuple[str | None, object]
        try:
            answer = (None, function(*arguments))
        except Exception as error:
            answer = (" ".join(f"{type(error).__name__}: {error}".split()), None)
        connection.send(answer)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        _serve(_Connection(int(sys.argv[1])))
    finally:
        # The process that would remove it may have been killed.
        shutil.rmtree(os.environ["TMPDIR"], ignore_errors=True)
