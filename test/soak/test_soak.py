"""Some rounds of what `make soak` does for ten minutes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from measuring import Holdings, growth
from soak import complaints

SOAK = """
import sys
sys.path[:0] = sys.argv[1:]
from soak import complaints, rounds
measured = [each for _, each in rounds(lambda done: done < 10, calls=64)]
found = complaints(measured)
assert not found, (found, measured)
"""


@pytest.mark.wide
def test_a_process_that_lives_long_holds_no_more_and_computes_the_same() -> None:
    """In a process of its own: what other tests left counts otherwise.

    A result that is kept is 8 KiB, 8 MiB of the 1024 calls of a round, and seven rounds are compared.
    """
    command = [sys.executable, "-W", "ignore", "-c", SOAK, str(Path(__file__).parent)]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr


def test_growth_is_found() -> None:
    """Of memory from one percent on, of threads and files from one on; not what comes and goes."""
    flat = [Holdings(1000 + 30 * (number % 7 == 0), 4, 9, 50) for number in range(60)]
    assert growth(flat, lambda each: each.resident) == 0
    assert complaints(flat) == []
    grown = [Holdings(1000 + number, 4 + number // 50, 9 + number // 40, 50) for number in range(60)]
    assert complaints(grown) == [
        f"memory grew by {growth(grown, lambda each: each.resident):.2%}",
        "there were 4 threads, and 5 at the end",
        "there were 9 open files, and 10 at the end",
    ]
