"""A process that lives long: its rounds, and what is wrong with what it holds after them."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from activities import CALLS, Server
from measuring import Holdings, growth, holdings, settle

MOST_GROWTH = 0.01
"""Of memory after the first tenth of the rounds."""


def rounds(goes_on: Callable[[int], bool], calls: int = CALLS) -> Iterator[tuple[Server, Holdings]]:
    """The server, and what the process holds after each round of all activities.

    As long as it `goes_on` after so many, with `calls` of each thread in one.

    Raises AssertionError for a result that is another one than before, and a forked process that hangs.
    """
    with tempfile.TemporaryDirectory(prefix="winograd-soak-") as folder:
        server = Server(Path(folder), calls)
        settle()
        done = 0
        while goes_on(done):
            for activity in server.activities.values():
                activity()
            done += 1
            yield server, holdings()


def for_seconds(seconds: float) -> Callable[[int], bool]:
    """Goes on for so long."""
    end = time.monotonic() + seconds
    return lambda done: time.monotonic() < end


def complaints(measured: list[Holdings]) -> list[str]:
    """What the process held more and more of."""
    found = []
    grown = growth(measured, lambda each: each.resident)
    if grown >= MOST_GROWTH:
        found.append(f"memory grew by {grown:.2%}")
    settled = measured[len(measured) // 10 :]
    for name, quantity in (("threads", lambda each: each.threads), ("open files", lambda each: each.files)):
        first, last = quantity(settled[0]), quantity(settled[-1])
        if last > first:
            found.append(f"there were {first} {name}, and {last} at the end")
    return found
