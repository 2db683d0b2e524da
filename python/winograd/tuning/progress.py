"""What tuning tells of its progress, in lines."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence

from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.selection.implementation import Implementation

from .measuring.outcome import Failure, Outcome, Timing
from .search import Search

_USUAL = re.compile(r" (stride|dilation) 1(x1)*(?= )| padding 0(x0)* 0(x0)*(?= )| groups 1(?= )| f32$")
_SAME_PADDING = re.compile(r"( padding (\S+)) \2(?= |$)")


class Progress:
    """Lines for `report`, with the time of `budget` seconds that is gone."""

    def __init__(self, report: Callable[[str], None], budget: float) -> None:
        self._report = report
        self._budget = budget
        self._begin = time.monotonic()

    def begin(self, searches: Sequence[Search], machine: str) -> None:
        places = sum(search.workload.count for search in searches)
        known = sum(len(search.measurements) for search in searches)
        self._report(
            f"{places} layers, {len(searches)} distinct, on {machine}"
            + (f"; {known} measurements known from before" if known else "")
        )

    def batch(self, search: Search, outcomes: Mapping[Implementation, Outcome]) -> None:
        """What came of a batch, failures in lines of their own."""
        for implementation, outcome in outcomes.items():
            if isinstance(outcome, Failure):
                is_bug = outcome.is_wrong_result and not implementation.is_left_to_iree
                kind = "WRONG RESULT, please report this:" if is_bug else "dropped"
                self._report(
                    f"  {kind} {implementation} for {brief(search.workload.problem)}: {outcome.reason}"
                )
        elapsed = _clock(time.monotonic() - self._begin)
        timings = [outcome for outcome in outcomes.values() if isinstance(outcome, Timing)]
        outliers = sum(timing.outliers for timing in timings)
        calls = sum(len(timing.samples) for timing in timings)
        self._report(
            f"[{elapsed}/{_clock(self._budget)}] {brief(search.workload.problem)}: "
            f"{len(timings)} measured ({outliers}/{calls} outliers), {_standing(search)}"
        )

    def end(self, searches: Sequence[Search]) -> None:
        """A table of all layers, and the sums where all were measured."""
        for search in searches:
            self._report(f"{search.workload.count} x {brief(search.workload.problem)}: {_standing(search)}")
        total = {"default": 0.0, "best": 0.0}
        for search in searches:
            baseline, best = search.measurements.get(search.baseline), search.best
            if baseline is None or best is None:
                return
            total["default"] += search.workload.count * baseline.seconds
            total["best"] += search.workload.count * best.seconds
        if searches:
            self._report(
                f"all layers: {1e3 * total['best']:.3f} ms, {1e3 * total['default']:.3f} ms untuned "
                f"({total['default'] / total['best']:.2f} times)"
            )


def _standing(search: Search) -> str:
    best = search.best
    if best is None:
        return "nothing measured yet"
    gain = "" if search.speedup is None else f", {search.speedup:.2f} times as fast"
    by = "IREE's own code" if best.implementation.is_left_to_iree else str(best.implementation.algorithm)
    return f"{1e3 * best.seconds:.3f} ms{gain}, {by}"


def brief(problem: ConvolutionProblem) -> str:
    """The text of a problem without what most have: strides of 1, no padding, one group, f32.

    Padding that both sides have is said once.
    """
    text = _USUAL.sub("", str(problem))
    return _SAME_PADDING.sub(r"\1", text).replace(" kernel ", " ", 1)


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"
