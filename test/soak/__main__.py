"""Has a process live for a while: `python test/soak --seconds 10min`.

Prints what it holds, about a hundred times. The exit status is 1 where that grows.
"""

from __future__ import annotations

import argparse
import sys
import time

from measuring import Holdings, growth
from soak import complaints, for_seconds, rounds

UNITS = {"": 1, "s": 1, "min": 60, "h": 3600}
_LINES = 100


def seconds(text: str) -> float:
    """The seconds of "90", "10min" or "2h". Raises ValueError for other texts."""
    number = text.rstrip("sminh")
    return float(number) * UNITS[text[len(number) :]]


def main() -> int:
    parser = argparse.ArgumentParser(prog="soak", description=__doc__)
    parser.add_argument("--seconds", type=seconds, default=60.0, help="a number, or one with s, min or h")
    arguments = parser.parse_args()
    measured: list[Holdings] = []
    printed = -arguments.seconds
    done = ""
    for server, each in rounds(for_seconds(arguments.seconds)):
        done = f"{server.loads} loads, {server.calls} calls"
        measured.append(each)
        if time.monotonic() - printed >= arguments.seconds / _LINES:
            printed = time.monotonic()
            print(f"round {len(measured)}, {done}: {each}", flush=True)
    print(
        f"{len(measured)} rounds, {done}; memory grew by {growth(measured, lambda each: each.resident):.3%}"
    )
    found = complaints(measured)
    for complaint in found:
        print(complaint)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
