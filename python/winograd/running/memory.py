"""How much memory the process has."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from pathlib import Path

_STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")
_RESET_PEAK = "5"
"""As proc(5) has it, since Linux 4.0."""


def forget_peak() -> None:
    """From now on `peak_bytes` is the most since then, or still since the start where this isn't Linux."""
    with suppress(OSError):
        _RESET.write_text(_RESET_PEAK)


def peak_bytes() -> int | None:
    """The most memory that was resident at once, the process's own code and what it maps included.

    None on Windows.
    """
    with suppress(OSError):
        if match := re.search(r"^VmHWM:\s*(\d+) kB$", _STATUS.read_text(), re.MULTILINE):
            return 1024 * int(match[1])
    if sys.platform == "win32":
        return None
    # Elsewhere than on Linux.
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most
