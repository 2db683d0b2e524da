"""The search for the fastest implementation of one layer.

It starts with IREE's own code and the algorithms that the cost model finds promising, each with its default
schedule and the one that is predicted to be the fastest. Then it refines the schedules of those algorithms
that proved best: half of what it tries are the next ones in the order of predictions, half come from an
estimator that learns from the measurements.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from itertools import chain, zip_longest
from statistics import median_high

from iree.winograd.passes.infrastructure.algorithm import Algorithm
from iree.winograd.pipelines.selection.candidates import convolution_shape, iree_implementation
from iree.winograd.pipelines.selection.decision import Candidate
from iree.winograd.pipelines.selection.implementation import Implementation
from iree.winograd.pipelines.selection.prediction import candidate, predict
from iree.winograd.pipelines.selection.tuning_database import Measurement

from .measuring.outcome import Failure, Outcome, Timing
from .schedule_sampler import sample_schedules
from .workloads import Workload

PROMISING_ALGORITHMS = 6
REFINED_ALGORITHMS = 3
PROMISING_TIME = 1.6
"""Times the best prediction, of algorithms or of schedules of one, that a promising one may be predicted."""
MIN_GAIN = 0.01
"""Relative gain of a batch below which it brought nothing."""
CONFIRMED_BATCHES = 3
"""That the best has to have been measured in."""
CONFIRMED_AT_ONCE = 3
FRUITLESS_BATCHES = 3
"""After which a search ends."""
EXPECTED_GAIN = 0.2
"""Relative gain to be expected of the first batch; the cost model's error is about that."""


class Search:
    """What was tried for `workload`, `known` from earlier, and what is next.

    Times are relative to those of the baseline in the same rounds, and are stated in what the baseline took
    when it was first measured, so that those of different batches compare.
    """

    def __init__(self, workload: Workload, known: Iterable[Measurement] = ()) -> None:
        self.workload = workload
        self.baseline = workload.default.implementation
        self.measurements: dict[Implementation, Measurement] = {each.implementation: each for each in known}
        self.failed: dict[Implementation, Failure] = {}
        self._seconds = {each.implementation: [each.seconds] for each in self.measurements.values()}
        self._gain = EXPECTED_GAIN * 0.5 ** (len(self.measurements) // (2 * PROMISING_ALGORITHMS))
        self._fruitless = 0
        self._promising = cache(self._find_promising)

    @property
    def best(self) -> Measurement | None:
        """Of those accurate enough; None before anything was measured."""
        accurate = (each for each in self.measurements.values() if self._is_accurate(each.implementation))
        return min(accurate, key=lambda each: each.seconds, default=None)

    @property
    def speedup(self) -> float | None:
        """Of the best over the baseline; None before both were measured."""
        baseline, best = self.measurements.get(self.baseline), self.best
        return None if baseline is None or best is None else baseline.seconds / best.seconds

    @property
    def is_finished(self) -> bool:
        return self._fruitless >= FRUITLESS_BATCHES

    @property
    def expected_gain(self) -> float:
        """Seconds per call of the program that the next batch is expected to save."""
        best = self.best
        seconds = self.workload.default.predicted_seconds if best is None else best.seconds
        return self.workload.count * seconds * self._gain

    def propose(self, count: int) -> tuple[Implementation, ...]:
        """The baseline, the best so far, and up to `count` that weren't tried; empty when all were."""
        best = self.best
        new = self._untried(self._seeds())[:count]
        if len(new) < count:
            new = list(dict.fromkeys([*new, *self._refine(count)]))[:count]
        if not new:
            return ()
        incumbents = [self.baseline] if best is None else [self.baseline, best.implementation]
        return tuple(dict.fromkeys([*incumbents, *new]))

    def confirm(self) -> tuple[Implementation, ...]:
        """The baseline and the fastest, if one of these may be the best by luck only; else empty."""
        best = self.best
        if best is None or best.implementation in self.failed:
            return ()
        if len(self._seconds[best.implementation]) >= CONFIRMED_BATCHES:
            return ()
        accurate = (each for each in self.measurements.values() if self._is_accurate(each.implementation))
        fastest = sorted(accurate, key=lambda each: each.seconds)[:CONFIRMED_AT_ONCE]
        return tuple(dict.fromkeys([self.baseline, *(each.implementation for each in fastest)]))

    def end(self) -> None:
        """There is nothing left to try."""
        self._fruitless = FRUITLESS_BATCHES

    def tell(self, outcomes: dict[Implementation, Outcome]) -> tuple[Measurement, ...]:
        """Take in what came of a batch; returns what is now known of what was measured in it."""
        before = self.best
        baseline = outcomes.get(self.baseline)
        measured = []
        for implementation, outcome in outcomes.items():
            if isinstance(outcome, Failure):
                self.failed[implementation] = outcome
                if implementation != self.baseline:
                    self.measurements.pop(implementation, None)
                continue
            measurement = self._measurement(implementation, outcome, baseline)
            self.measurements[implementation] = measurement
            measured.append(measurement)
        best = self.best
        if best is not None:
            gain = EXPECTED_GAIN if before is None else max(0.0, 1 - best.seconds / before.seconds)
            self._fruitless = 0 if gain >= MIN_GAIN else self._fruitless + 1
            self._gain = max(gain, self._gain) / 2
        return tuple(measured)

    def _measurement(
        self, implementation: Implementation, timing: Timing, baseline: Outcome | None
    ) -> Measurement:
        """`timing` together with what was measured of `implementation` before.

        The median of batches: of two the slower one counts, so that the best isn't the one with most luck.
        """
        reference = self.measurements.get(self.baseline)
        seconds = timing.median
        if reference is not None and isinstance(baseline, Timing):
            seconds = timing.ratio_to(baseline) * reference.seconds
        former = self.measurements.get(implementation)
        runs = len(timing.samples) + (0 if former is None else former.runs)
        batches = self._seconds.setdefault(implementation, [])
        batches.append(seconds)
        return Measurement(implementation, median_high(batches), timing.spread, runs)

    def _is_accurate(self, implementation: Implementation) -> bool:
        return self._is_allowed(self._candidate(implementation))

    def _is_allowed(self, candidate: Candidate) -> bool:
        is_accurate = candidate.keeps(self.workload.max_relative_error)
        return is_accurate and candidate.multiplies_as(self.workload.precision)

    def _candidate(self, implementation: Implementation) -> Candidate:
        return candidate(self.workload.problem, self.workload.space, implementation)

    def _untried(self, implementations: Iterable[Implementation]) -> list[Implementation]:
        return [
            each
            for each in dict.fromkeys(implementations)
            if each not in self.measurements and each not in self.failed
        ]

    def _seeds(self) -> list[Implementation]:
        algorithms = self._algorithms()
        fastest = (
            implementation
            for each in algorithms
            for implementation in self._promising(each.implementation.algorithm)[:1]
        )
        iree = iree_implementation(self.workload.problem)
        first = [self.baseline, iree] if self._is_accurate(iree) else [self.baseline]
        return [*first, *fastest, *(each.implementation for each in algorithms)]

    def _algorithms(self) -> list[Candidate]:
        """The promising ones of ours with their default schedules, fastest first.

        The direct convolution is one of them unless it is far behind: it is another kernel, whose time is
        mispredicted independently of the many with tiles.
        """
        found = predict(self.workload.problem, self.workload.space)
        predicted = self._fastest(each for each in found if not each.implementation.is_left_to_iree)
        return [
            each
            for rank, each in enumerate(predicted)
            if rank < PROMISING_ALGORITHMS or each.implementation.algorithm.is_direct
        ]

    def _find_promising(self, algorithm: Algorithm) -> tuple[Implementation, ...]:
        """The implementations of an algorithm, in the order of predictions."""
        shape = convolution_shape(self.workload.problem, algorithm)
        schedules = self.workload.space.schedules(shape)
        ordered = self._fastest(self._candidate(Implementation(algorithm, each)) for each in schedules)
        return tuple(each.implementation for each in ordered)

    def _fastest(self, candidates: Iterable[Candidate]) -> list[Candidate]:
        """Those accurate enough that may be the fastest, in the order of predictions."""
        accurate = list(filter(self._is_allowed, candidates))
        most = PROMISING_TIME * min((each.predicted_seconds for each in accurate), default=0.0)
        promising = (each for each in accurate if each.predicted_seconds <= most)
        return sorted(promising, key=lambda each: each.predicted_seconds)

    def _scheduled(self) -> dict[Implementation, Measurement]:
        """What was measured of kernels with a schedule that can be refined."""
        return {each: found for each, found in self.measurements.items() if not each.is_left_to_iree}

    def _refine(self, count: int) -> list[Implementation]:
        best: dict[Algorithm, float] = {}
        for implementation, measurement in self._scheduled().items():
            if self._is_accurate(implementation):
                seconds = best.get(implementation.algorithm, measurement.seconds)
                best[implementation.algorithm] = min(measurement.seconds, seconds)
        ranked = sorted(best, key=lambda algorithm: best[algorithm])[:REFINED_ALGORITHMS]
        if not ranked:
            ranked = [each.implementation.algorithm for each in self._algorithms()[:REFINED_ALGORITHMS]]
        # The best gets half of all, the next half of the rest, and so on.
        new: list[Implementation] = []
        for position, algorithm in enumerate(ranked):
            share = (count - len(new) + 1) // 2 if position < len(ranked) - 1 else count - len(new)
            new += self._next_schedules(algorithm, share)
        return new

    def _next_schedules(self, algorithm: Algorithm, count: int) -> list[Implementation]:
        promising = self._promising(algorithm)
        predicted = self._untried(promising)[:count]
        seconds = {
            implementation: measurement.seconds
            for implementation, measurement in self._scheduled().items()
            if implementation.algorithm == algorithm
        }
        if not seconds:
            return predicted
        sampled = sample_schedules(self._untried(promising), seconds, count)
        mixed = chain.from_iterable(zip_longest(sampled, predicted))
        return [each for each in dict.fromkeys(mixed) if each is not None][:count]
