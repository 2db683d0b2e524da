"""The least times of several programs, in turns, so that a slow spell of the machine hits none alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

MIN_ROUNDS = 3
BURST_SECONDS = 0.004


def least_seconds(
    runs: Mapping[str, Callable[[], Any]],
    seconds: float,
    progress: Callable[[float], None],
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """The seconds of the fastest call of each of `runs`, by name: all else a machine does only slows it down.

    Measures for `seconds`, but at least three rounds. In a round each run has one burst: an untimed call that
    brings its data and code back into the caches, then calls until the burst has lasted long enough.
    `progress` is told the part that is done, from 0 to 1.
    """
    begin = clock()
    found = dict.fromkeys(runs, float("inf"))
    rounds = 0
    while rounds < MIN_ROUNDS or clock() - begin < seconds:
        for name, run in runs.items():
            found[name] = min(found[name], _burst(run, clock))
        rounds += 1
        progress(min(rounds / MIN_ROUNDS, (clock() - begin) / seconds if seconds > 0 else 1.0, 1.0))
    return found


def _burst(run: Callable[[], Any], clock: Callable[[], float]) -> float:
    run()
    least = float("inf")
    begin = now = clock()
    while least == float("inf") or now - begin < BURST_SECONDS:
        start = now
        run()
        now = clock()
        least = min(least, now - start)
    return least
