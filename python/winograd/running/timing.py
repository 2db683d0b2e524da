"""How long calls take."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from iree.winograd.report.quantities import quantity

_LEAST_CALLS = 10


@dataclass(frozen=True)
class CallTimes:
    """Seconds of calls, without the first one: the median, and what a part of them stays below."""

    calls: int
    median: float
    percentile_10: float
    percentile_90: float
    percentile_99: float

    def __str__(self) -> str:
        parts = (
            f"{name} {quantity(value, 's')}"
            for name, value in (
                ("median", self.median),
                ("10 %", self.percentile_10),
                ("90 %", self.percentile_90),
                ("99 %", self.percentile_99),
            )
        )
        return f"{', '.join(parts)} of {self.calls} calls"

    def record(self) -> dict[str, Any]:
        """The same for JSON."""
        return asdict(self)


def time_calls(
    call: Callable[[], object], seconds: float, clock: Callable[[], float] = time.perf_counter
) -> CallTimes:
    """Calls again and again for so many seconds, ten times at least; one call before doesn't count."""
    call()
    samples: list[float] = []
    begin = now = clock()
    while len(samples) < _LEAST_CALLS or now - begin < seconds:
        start = now
        call()
        now = clock()
        samples.append(now - start)
    median, low, high, highest = np.percentile(samples, (50, 10, 90, 99))
    return CallTimes(len(samples), float(median), float(low), float(high), float(highest))
