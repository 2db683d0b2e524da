"""Times contenders side by side, in interleaved rounds: a slow spell of the machine hits all of them alike.

A round gives every contender one burst: an untimed call that brings its data and code back into the caches,
then calls until the burst lasted long enough. A burst's time is the median of its calls; a contender's is the
median of its bursts.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from iree.winograd.tuning.measuring.outcome import Timing


@dataclass(frozen=True)
class Contender:
    """Something to be timed: `run` does the whole work once and returns when it is done."""

    name: str
    run: Callable[[], Any]


def time_interleaved(
    contenders: Sequence[Contender],
    *,
    rounds: int = 7,
    burst_seconds: float = 0.05,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Timing]:
    """Times every contender in every round and returns their timings by name.

    The order alternates between rounds, so that no contender always follows the same neighbour. Raises
    `ValueError` when two contenders share a name or `rounds` is not positive.
    """
    names = [contender.name for contender in contenders]
    if len(set(names)) != len(names):
        raise ValueError(f"contenders must have distinct names, got {names}")
    if rounds < 1:
        raise ValueError(f"rounds must be positive, got {rounds}")
    samples: dict[str, list[float]] = {name: [] for name in names}
    for index in range(rounds):
        order = contenders if index % 2 == 0 else list(reversed(contenders))
        for contender in order:
            samples[contender.name].append(_burst(contender.run, burst_seconds, clock))
    return {name: Timing(tuple(values)) for name, values in samples.items()}


def _burst(run: Callable[[], Any], seconds: float, clock: Callable[[], float]) -> float:
    run()
    calls: list[float] = []
    begin = now = clock()
    while not calls or now - begin < seconds:
        start = now
        run()
        now = clock()
        calls.append(now - start)
    return statistics.median(calls)
