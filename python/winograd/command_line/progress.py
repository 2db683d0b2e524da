"""What a command that takes long is doing, and for how long: on the standard error."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_SECONDS_BETWEEN_LINES = 0.5
_LINE_WIDTH = 60


class Progress:
    """Says which part of the work is done now, and how long all of it has taken.

    On a terminal that is one line, which is written anew all the time and gone in the end. Elsewhere it is a
    line for each part, and nothing at all unless it `is_wanted`.
    """

    def __init__(self, is_wanted: bool = False, *, is_quiet: bool = False) -> None:
        self._is_terminal = sys.stderr is not None and sys.stderr.isatty() and not is_quiet
        self._is_wanted = is_wanted and sys.stderr is not None
        self._start = time.monotonic()
        self._part = ""

    def begin(self, part: str) -> None:
        """The work goes on with `part`."""
        self._part = part
        if self._is_terminal:
            self._write_line()
        elif self._is_wanted:
            print(f"[{self._elapsed()}] {part}", file=sys.stderr, flush=True)

    @contextmanager
    def shown(self) -> Iterator[Progress]:
        """Keep the time on a terminal up to date as long as the block takes."""
        if not self._is_terminal:
            yield self
            return
        is_over = threading.Event()

        def write() -> None:
            while not is_over.wait(_SECONDS_BETWEEN_LINES):
                self._write_line()

        writer = threading.Thread(target=write, daemon=True)
        writer.start()
        try:
            yield self
        finally:
            is_over.set()
            writer.join()
            _write(f"{'':{_LINE_WIDTH}}\r")

    def _write_line(self) -> None:
        # What others write then begins where this line does.
        _write(f"{f'[{self._elapsed()}] {self._part}':{_LINE_WIDTH}.{_LINE_WIDTH}}\r")

    def _elapsed(self) -> str:
        seconds = int(time.monotonic() - self._start)
        return f"{seconds // 60}:{seconds % 60:02}"


def _write(text: str) -> None:
    with suppress(OSError):
        sys.stderr.write(text)
        sys.stderr.flush()
