"""How long calls take, and how many there are in a second."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from iree.winograd.report.quantities import quantity

_LEAST_CALLS = 10


@dataclass(frozen=True)
class CallTimes:
    """Seconds of calls, without each client's first one: the median, and what a part of them stays below.

    `calls_per_second` are those of all clients together.
    """

    calls: int
    median: float
    percentile_10: float
    percentile_90: float
    percentile_99: float
    calls_per_second: float
    clients: int = 1

    def __str__(self) -> str:
        parts = [
            f"{name} {quantity(value, 's')}"
            for name, value in (
                ("median", self.median),
                ("10 %", self.percentile_10),
                ("90 %", self.percentile_90),
                ("99 %", self.percentile_99),
            )
        ]
        clients = f" by {self.clients} clients" if self.clients > 1 else ""
        return f"{', '.join(parts)} of {self.calls} calls{clients}, {self.calls_per_second:.4g} calls/s"

    def record(self) -> dict[str, Any]:
        """The same for JSON."""
        return asdict(self)


def time_calls(
    call: Callable[[], object], seconds: float, clock: Callable[[], float] = time.perf_counter
) -> CallTimes:
    """Calls again and again for so many seconds, ten times at least; one call before doesn't count."""
    call()
    begin = clock()
    samples, end = _samples(call, begin, seconds, clock)
    return _call_times(samples, end - begin)


def time_clients(calls: Sequence[Callable[[], object]], seconds: float) -> CallTimes:
    """The same of several clients at once, each of which makes its calls one after the other.

    Raises what the first of them to fail raised.
    """
    ready = threading.Barrier(len(calls))
    found: list[tuple[list[float], float, float]] = []
    failures: list[BaseException] = []

    def serve(call: Callable[[], object]) -> None:
        try:
            call()
            ready.wait()
            begin = time.perf_counter()
            found.append((*_samples(call, begin, seconds, time.perf_counter), begin))
        except threading.BrokenBarrierError:
            # Another one failed before.
            return
        except BaseException as error:
            failures.append(error)
            ready.abort()

    clients = [threading.Thread(target=serve, args=(call,)) for call in calls]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    if failures:
        raise failures[0]
    length = max(end for _, end, _ in found) - min(begin for _, _, begin in found)
    return _call_times([sample for samples, _, _ in found for sample in samples], length, len(calls))


def _samples(
    call: Callable[[], object], begin: float, seconds: float, clock: Callable[[], float]
) -> tuple[list[float], float]:
    """The seconds of each call, and the time at the end of the last one."""
    samples: list[float] = []
    now = begin
    while len(samples) < _LEAST_CALLS or now - begin < seconds:
        start = now
        call()
        now = clock()
        samples.append(now - start)
    return samples, now


def _call_times(samples: Sequence[float], length: float, clients: int = 1) -> CallTimes:
    median, low, high, highest = map(float, np.percentile(samples, (50, 10, 90, 99)))
    return CallTimes(len(samples), median, low, high, highest, len(samples) / length, clients)
