"""Arrays beside pages that may not be touched."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from guarded import GuardedArray

READ_ELEMENT = """
import ctypes, sys
import numpy as np
from guarded import GuardedArray
guarded = GuardedArray(np.zeros(16, np.float32), sys.argv[1])
ctypes.c_float.from_address(guarded.array.ctypes.data + 4 * int(sys.argv[2])).value
"""


@pytest.mark.parametrize(
    ("edge", "index", "is_inside"),
    [("start", -1, False), ("end", 16, False), ("start", 0, True), ("end", 15, True)],
)
def test_a_read_beyond_an_array_ends_the_process(edge: str, index: int, is_inside: bool) -> None:
    folder = Path(__file__).parent
    process = subprocess.run([sys.executable, "-c", READ_ELEMENT, edge, str(index)], cwd=folder, check=False)
    assert process.returncode == (0 if is_inside else -signal.SIGSEGV)


def test_writes_between_an_array_and_its_guard_are_seen() -> None:
    guarded = GuardedArray(np.zeros(3, np.float32), "end")
    assert guarded.is_intact
    np.lib.stride_tricks.as_strided(guarded.array, (4,))[3] = 1.0
    assert not guarded.is_intact
