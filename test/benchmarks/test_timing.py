from collections.abc import Callable
from itertools import pairwise

import pytest
from iree.winograd.tuning.measuring.outcome import Timing

from benchmarks.timing import Contender, time_interleaved


class Clock:
    """Time that passes only when someone works; it also records who did."""

    def __init__(self) -> None:
        self.now = 0.0
        self.workers: list[str] = []

    def __call__(self) -> float:
        return self.now

    def work(self, name: str, seconds: Callable[[], float]) -> Contender:
        def run() -> None:
            self.now += seconds()
            self.workers.append(name)

        return Contender(name, run)


def test_median_of_rounds_and_spread() -> None:
    timing = Timing((4.0, 1.0, 3.0, 2.0, 100.0))
    assert timing.median == 3
    assert timing.quartiles == (2, 4)
    assert timing.spread == pytest.approx(2 / 3)
    assert Timing((0.5,)).spread == 0


@pytest.mark.parametrize("samples", [(), (1.0, 0.0), (-1.0,)])
def test_samples_are_positive(samples: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="sample"):
        Timing(samples)


def test_each_contender_gets_the_time_of_its_own_calls() -> None:
    clock = Clock()
    contenders = [clock.work("slow", lambda: 0.25), clock.work("fast", lambda: 0.0625)]
    timings = time_interleaved(contenders, rounds=4, burst_seconds=1, clock=clock)
    assert timings["slow"].samples == (0.25,) * 4
    assert timings["fast"].samples == (0.0625,) * 4


def test_a_burst_is_the_median_of_its_calls_and_its_first_call_does_not_count() -> None:
    clock = Clock()
    durations = iter([50.0, 1.0, 2.0, 9.0])
    timings = time_interleaved(
        [clock.work("one", lambda: next(durations))], rounds=1, burst_seconds=12, clock=clock
    )
    assert timings["one"].samples == (2.0,)


def test_a_call_longer_than_the_burst_is_timed_once() -> None:
    clock = Clock()
    time_interleaved([clock.work("one", lambda: 5.0)], rounds=3, burst_seconds=1, clock=clock)
    assert len(clock.workers) == 3 * 2


def test_rounds_interleave_in_alternating_order() -> None:
    clock = Clock()
    contenders = [clock.work(name, lambda: 1.0) for name in "abc"]
    time_interleaved(contenders, rounds=2, burst_seconds=1, clock=clock)
    turns = [clock.workers[0], *(after for before, after in pairwise(clock.workers[::2]) if before != after)]
    assert "".join(turns) == "abcba"


def test_names_are_distinct_and_rounds_positive() -> None:
    clock = Clock()
    with pytest.raises(ValueError, match="distinct"):
        time_interleaved([clock.work("a", lambda: 1.0), clock.work("a", lambda: 1.0)], clock=clock)
    with pytest.raises(ValueError, match="rounds"):
        time_interleaved([clock.work("a", lambda: 1.0)], rounds=0, clock=clock)
