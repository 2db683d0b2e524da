"""How the tuner times, and what it tries next, with times that tests make up."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from zlib import crc32

import pytest
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.cpu.backend import CpuBackend
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.selection.candidates import iree_implementation
from iree.winograd.pipelines.selection.implementation import Implementation
from iree.winograd.pipelines.selection.prediction import candidate, predict
from iree.winograd.tuning.measuring.measurement import MAX_ROUNDS, MIN_ROUNDS, time_round_robin
from iree.winograd.tuning.measuring.outcome import Failure, Outcome, Timing
from iree.winograd.tuning.schedulers.worker_process import CallError, WorkerLostError, WorkerProcess
from iree.winograd.tuning.search import PROMISING_ALGORITHMS, Search
from iree.winograd.tuning.workloads import Workload

PROBLEM = ConvolutionProblem.parse(
    "1x14x14x64->64 kernel 3x3 stride 1x1 dilation 1x1 padding 1x1 1x1 groups 1 f32"
)
SPACE = CpuBackend(CpuTarget.of("", "+avx512f")).search_space()


class Clock:
    """Time that passes only while something runs."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def work(self, seconds: float) -> Callable[[], None]:
        def run() -> None:
            self.now += seconds

        return run


def workload(max_relative_error: float | None = 1e-6) -> Workload:
    candidates = predict(PROBLEM, SPACE)
    accurate = [each for each in candidates if each.predicted_error <= (max_relative_error or 1)]
    default = min(accurate, key=lambda each: each.predicted_seconds)
    return Workload(PROBLEM, SPACE, default, max_relative_error)


IREE = iree_implementation(PROBLEM)


def true_seconds(implementation: Implementation) -> float:
    """Not quite what is predicted."""
    if implementation == IREE:
        return 1.0
    predicted = candidate(PROBLEM, SPACE, implementation).predicted_seconds
    return predicted * (1 + crc32(str(implementation.schedule).encode()) % 97 / 300)


def timings(implementations: tuple[Implementation, ...], drift: float = 1.0) -> dict[Implementation, Outcome]:
    return {each: Timing((drift * true_seconds(each),) * 5) for each in implementations}


def test_rounds_end_when_the_fastest_is_clear_and_the_baseline_takes_part_in_all() -> None:
    clock = Clock()
    runs = {0: clock.work(3.0), 1: clock.work(1.0), 2: clock.work(2.0)}
    found = time_round_robin(runs, lambda _: None, 1e9, clock)
    assert {index: timing.median for index, timing in found.items()} == {0: 3.0, 1: 1.0, 2: 2.0}
    assert {len(timing.samples) for timing in found.values()} == {MIN_ROUNDS}


def test_equals_are_timed_for_longer_and_the_slow_leave() -> None:
    clock = Clock()
    runs = {0: clock.work(3.0), 1: clock.work(1.0), 2: clock.work(1.0), 3: clock.work(2.0)}
    found = time_round_robin(runs, lambda _: None, 1e9, clock)
    assert [len(found[index].samples) for index in range(4)] == [
        MAX_ROUNDS,
        MAX_ROUNDS,
        MAX_ROUNDS,
        MIN_ROUNDS,
    ]


def test_rounds_end_with_their_time() -> None:
    clock = Clock()
    pause = clock.work(1.0)
    runs = {0: clock.work(1.0), 1: clock.work(1.0)}
    found = time_round_robin(runs, lambda _: pause(), 39.0, clock)
    # A round takes four seconds, half of which are preparations and aren't counted.
    assert [timing.samples for timing in found.values()] == [(1.0,) * 10] * 2


def test_outliers_are_counted_and_slow_rounds_cancel() -> None:
    timing = Timing((1.0, 1.1, 0.9, 1.0, 9.0))
    assert timing.median == 1.0
    assert timing.outliers == 1
    slow_half = (1.0, 1.0, 5.0, 5.0, 5.0)
    half = Timing(tuple(sample / 2 for sample in slow_half))
    assert half.ratio_to(Timing(slow_half)) == 0.5
    with pytest.raises(ValueError, match="positive samples"):
        Timing(())


def test_search_measures_the_default_first_and_tries_nothing_twice() -> None:
    search = Search(workload())
    tried: list[Implementation] = []
    for _ in range(6):
        proposed = search.propose(8)
        assert proposed[0] == search.baseline
        best = search.best
        incumbents = {search.baseline} if best is None else {search.baseline, best.implementation}
        new = [each for each in proposed if each not in incumbents or best is None]
        assert 0 < len(new) <= 8 and not set(new) & set(tried)
        tried += new
        search.tell(timings(proposed))
    best, speedup = search.best, search.speedup
    assert best is not None and speedup is not None and speedup >= 1
    assert best.seconds == pytest.approx(min(map(true_seconds, tried)))


def test_batches_are_full_also_where_there_is_one_algorithm() -> None:
    problem = ConvolutionProblem.parse(
        "1x14x14x64->64 kernel 1x1 stride 1x1 dilation 1x1 padding 0x0 0x0 groups 1 f32"
    )
    (default,) = predict(problem, SPACE)
    search = Search(Workload(problem, SPACE, default, 1e-5))
    assert len(search.propose(8)) == 8


@pytest.mark.parametrize(("stride", "tried"), [(2, True), (1, False)])
def test_the_direct_kernel_is_tried_unless_far_behind(stride: int, tried: bool) -> None:
    """A stride of two divides what tiles save by about four."""
    problem = ConvolutionProblem.parse(
        f"1x112x112x128->256 kernel 3x3 stride {stride}x{stride} dilation 1x1 padding 1x1 1x1 groups 1 f32"
    )
    limit = 1e-6
    accurate = [each for each in predict(problem, SPACE) if each.predicted_error <= limit]
    ranked = sorted(accurate, key=lambda each: each.predicted_seconds)
    (direct,) = (each.implementation for each in ranked if each.implementation.algorithm.is_direct)
    seeds = Search(Workload(problem, SPACE, ranked[0], limit)).propose(2 * PROMISING_ALGORITHMS + 4)
    assert (direct in seeds) == tried


def test_iree_alone_is_measured_once_and_not_refined() -> None:
    search = Search(workload())
    first = search.propose(2)
    assert first == (search.baseline, IREE)
    search.tell({search.baseline: Timing((1e-3,) * 5), IREE: Timing((1e-4,) * 5)})
    best = search.best
    assert best is not None and best.implementation == IREE and search.speedup == pytest.approx(10)
    direct = {each for each in search.propose(8) if each.algorithm == IREE.algorithm}
    assert direct <= {IREE, search.baseline, *(each.implementation for each in predict(PROBLEM, SPACE))}
    while not search.is_finished:
        search.tell({each: Timing(((1e-4 if each == IREE else 1e-3),) * 5) for each in search.propose(8)})
    assert search.best is not None and search.best.implementation == IREE
    assert Search(workload(), search.measurements.values()).best == search.best


def test_search_ends_when_nothing_gets_better() -> None:
    search = Search(workload())
    batches = 0
    while not search.is_finished:
        search.tell({each: Timing((1e-3,) * 5) for each in search.propose(8)})
        batches += 1
    # One that found something, as there was nothing before, and three that didn't.
    assert batches == 4


def test_times_of_a_slow_spell_compare_with_those_before() -> None:
    search = Search(workload())
    search.tell(timings(search.propose(4)))
    proposed = search.propose(4)
    search.tell(timings(proposed, drift=3.0))
    for each in proposed:
        assert search.measurements[each].seconds == pytest.approx(true_seconds(each))


def test_luck_does_not_make_the_best() -> None:
    search = Search(workload())
    proposed = search.propose(4)
    lucky = proposed[-1]
    search.tell({**timings(proposed), lucky: Timing((1e-9,) * 5)})
    assert search.best is not None and search.best.implementation == lucky
    while confirmed := search.confirm():
        assert confirmed[0] == search.baseline
        search.tell(timings(confirmed))
    best = min(proposed, key=true_seconds)
    assert search.best.implementation == best
    assert search.best.seconds == pytest.approx(true_seconds(best))


def test_what_fails_later_is_not_the_best() -> None:
    search = Search(workload())
    proposed = search.propose(4)
    search.tell({**timings(proposed), proposed[-1]: Timing((1e-9,) * 5)})
    search.tell({**timings(search.confirm()), proposed[-1]: Failure("wrong", is_wrong_result=True)})
    assert search.best is not None and search.best.implementation != proposed[-1]


def test_failures_are_remembered_and_cost_nothing_else() -> None:
    search = Search(workload())
    first = search.propose(4)
    search.tell({**timings(first[:1]), **{each: Failure("crashed") for each in first[1:]}})
    assert set(search.failed) == set(first[1:])
    assert not set(search.propose(20)) & set(first[1:])
    best = search.best
    assert best is not None and best.implementation == search.baseline


def test_what_is_known_is_not_measured_again() -> None:
    before = Search(workload())
    for _ in range(3):
        before.tell(timings(before.propose(8)))
    resumed = Search(workload(), before.measurements.values())
    assert resumed.best == before.best
    best = before.best
    assert best is not None
    new = set(resumed.propose(8)) - {resumed.baseline, best.implementation}
    assert new and not new & set(before.measurements)
    assert resumed.expected_gain < Search(workload()).expected_gain


def test_the_error_limit_holds_for_all_that_is_tried_and_taken() -> None:
    strict = 1.5 * min(each.predicted_error for each in predict(PROBLEM, SPACE))
    search = Search(workload(strict))
    for _ in range(3):
        proposed = search.propose(8)
        assert all(candidate(PROBLEM, SPACE, each).predicted_error <= strict for each in proposed)
        search.tell(timings(proposed))
    fastest = min(predict(PROBLEM, SPACE), key=lambda each: each.predicted_seconds)
    assert fastest.predicted_error > strict
    # As if it came from a database that was written with a larger limit.
    search.tell({fastest.implementation: Timing((1e-9,) * 5)})
    best = search.best
    assert best is not None and best.implementation != fastest.implementation


def test_workloads_that_take_longest_come_first() -> None:
    once, often = workload(), replace(workload(), count=4)
    assert Search(often).expected_gain == pytest.approx(4 * Search(once).expected_gain)


def test_a_process_survives_errors_and_is_replaced_after_a_crash() -> None:
    process = WorkerProcess()
    try:
        assert process.call(divmod, 7, 2, timeout=60) == (3, 1)
        with pytest.raises(CallError, match="ZeroDivisionError"):
            process.call(divmod, 7, 0, timeout=60)
        with pytest.raises(WorkerLostError, match="SIGABRT"):
            process.call(os.abort, timeout=60)
        with pytest.raises(WorkerLostError, match="took more than 2 s"):
            process.call(time.sleep, 3600, timeout=2)
        assert process.call(divmod, 7, 2, timeout=60) == (3, 1)
    finally:
        process.close()


@pytest.mark.parametrize("killed", [True, False])
def test_temporary_files_of_a_process_end_with_it(killed: bool) -> None:
    process = WorkerProcess()
    try:
        name = Path(process.call(tempfile.mkdtemp, timeout=60))
        assert name.is_dir()
        if killed:
            process.kill()
            with pytest.raises(WorkerLostError, match="SIGKILL"):
                process.call(divmod, 7, 2, timeout=60)
        else:
            with pytest.raises(WorkerLostError, match="ended with exit code 3"):
                process.call(sys.exit, 3, timeout=60)
        assert not name.parent.exists()
    finally:
        process.close()
