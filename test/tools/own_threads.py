"""The threads of this process, those of drivers and of IREE's among them."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path

_TASKS = Path("/proc/self/task")
_FLAGS = 6
"""Behind a name in the line that Linux has of a thread: where its flags are."""
_ENDING = 4
"""The flag of one that has ended, for whom others may have waited already, and that is still listed."""


def own_threads() -> dict[int, str]:
    """Their names by what the system numbers them by, those that run; where it doesn't tell, Python's."""
    if not _TASKS.is_dir():
        return {thread.ident or 0: thread.name for thread in threading.enumerate()}
    running = {}
    for task in _TASKS.iterdir():
        # It may end after it was listed.
        with suppress(FileNotFoundError, ProcessLookupError):
            number, _, rest = (task / "stat").read_text().partition(" (")
            name, _, values = rest.rpartition(") ")
            if not int(values.split()[_FLAGS]) & _ENDING:
                running[int(number)] = name
    return running
