"""How near tuning comes to the fastest implementation that there is.

    python -m benchmarks.exhaustive --layers resnet18 --threads 1 --database build/tuning.db \\
        --output benchmarks/results/exhaustive-1-thread.json

A layer has up to 58 000 implementations, of which it would take hours to measure all. Measured are the
`--promising` ones that are predicted to be the fastest, of whatever algorithm, and `--sampled` ones drawn at
random from all that are accurate enough, so that the model has no say in these. Small spaces are measured
whole. The fastest of the database takes part in every batch; at last the three fastest are timed beside it
for longer, as the best of many noisy times is too good to be true.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.selection.candidates import implementations
from iree.winograd.pipelines.selection.implementation import Implementation, implementation_record
from iree.winograd.pipelines.selection.options import WinogradOptions
from iree.winograd.pipelines.selection.prediction import candidate
from iree.winograd.pipelines.selection.tuning_database import TuningDatabase
from iree.winograd.targets import target_flags
from iree.winograd.tuning.measuring.outcome import Timing
from iree.winograd.tuning.schedulers.batch import Batch, MeasuringDevice, Scheduler
from iree.winograd.tuning.schedulers.local import LocalScheduler
from iree.winograd.tuning.workloads import Workload, extract

from benchmarks.tuning import layer_source

BATCH_SIZE = 16
BATCH_SECONDS = 2.0
CONFIRMED = 3


@dataclass(frozen=True)
class ExhaustiveResult:
    """The fastest implementations of one layer, in seconds; `tuned` is that of the database."""

    problem: ConvolutionProblem
    space: int
    """Implementations that are accurate enough."""
    measured: int
    tuned: float
    fastest: float
    implementation: Implementation
    """The fastest."""

    @property
    def excess(self) -> float:
        """How many times as long the tuned one takes."""
        return self.tuned / self.fastest

    def record(self) -> dict[str, Any]:
        return vars(self) | {
            "problem": str(self.problem),
            "implementation": implementation_record(self.implementation),
        }


def main() -> None:
    options = _parse_arguments()
    device = MeasuringDevice("local-task", options.threads)
    scheduler = LocalScheduler(options.workers)
    results: list[ExhaustiveResult] = []
    try:
        flags = tuple(scheduler.resolve_flags(target_flags("cpu")))
        # Networks have layers in common.
        workloads = {
            workload.problem: workload
            for name in options.layers
            for workload in extract(layer_source(name), flags, WinogradOptions(threads=options.threads))
        }
        for workload in workloads.values():
            tuned = _tuned(workload, options.database, scheduler.machine(device.uri))
            if tuned is not None:
                search = LayerSearch(workload, tuned, scheduler, flags, device)
                results.append(search.run(options.promising, options.sampled))
                print(_line(results[-1]), flush=True)
    finally:
        scheduler.close()
    if results:
        excess = [result.excess for result in results]
        print(f"tuned over fastest: {geometric_mean(excess):.3f} (geometric mean), {max(excess):.3f} (worst)")
    if options.output is not None:
        report = {"threads": options.threads, "layers": [result.record() for result in results]}
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(report, indent=1) + "\n")


def _tuned(workload: Workload, database_path: Path, machine: str) -> Implementation | None:
    """The fastest implementation that the database has for the workload."""
    with TuningDatabase(database_path, report=print) as database:
        known = database.measurements(workload.problem, workload.space.key, machine=machine)
    return known[0].implementation if known else None


def _line(result: ExhaustiveResult) -> str:
    return (
        f"{result.problem!s:110} {result.measured:5} of {result.space:6}: tuned {1e3 * result.tuned:8.3f} "
        f"ms, fastest {1e3 * result.fastest:8.3f} ({result.excess:.3f}x), {result.implementation}"
    )


def _parse_arguments() -> argparse.Namespace:
    from benchmarks.networks.catalog import NETWORKS

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--layers", nargs="+", choices=["mazaheri", *NETWORKS], default=["resnet18"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1, help="processes that compile")
    parser.add_argument("--promising", type=int, default=100, metavar="N")
    parser.add_argument("--sampled", type=int, default=50, metavar="N")
    parser.add_argument("--database", type=Path, required=True, help="of `benchmarks.tuning`")
    parser.add_argument("--output", type=Path, help="a JSON file")
    return parser.parse_args()


class LayerSearch:
    """Measures implementations of one layer beside the tuned one."""

    def __init__(
        self,
        workload: Workload,
        tuned: Implementation,
        scheduler: Scheduler,
        flags: tuple[str, ...],
        device: MeasuringDevice,
    ) -> None:
        self._workload = workload
        self._tuned = tuned
        self._scheduler = scheduler
        self._flags = flags
        self._device = device

    def run(self, promising: int, sampled: int) -> ExhaustiveResult:
        ranked = self._ranked()
        rest = ranked[promising:]
        chosen = [*ranked[:promising], *random.Random(0).sample(rest, min(sampled, len(rest)))]
        relative: dict[Implementation, float] = {}
        remaining = iter(chosen)
        while batch := tuple(islice(remaining, BATCH_SIZE)):
            timings = self._measure(batch, BATCH_SECONDS)
            baseline = timings[self._tuned]
            relative |= {each: timing.ratio_to(baseline) for each, timing in timings.items()}
        fastest = sorted(relative, key=lambda each: relative[each])[:CONFIRMED]
        confirmed = self._measure(fastest, 2 * BATCH_SECONDS)
        tuned = confirmed[self._tuned]
        ratios = {each: timing.ratio_to(tuned) for each, timing in confirmed.items()}
        best = min(ratios, key=lambda each: ratios[each])
        return ExhaustiveResult(
            self._workload.problem,
            len(ranked),
            len(relative),
            tuned.median,
            tuned.median * ratios[best],
            best,
        )

    def _ranked(self) -> list[Implementation]:
        """Those accurate enough, in the order of predictions."""
        problem, space, limit = (
            self._workload.problem,
            self._workload.space,
            self._workload.max_relative_error,
        )
        candidates = (candidate(problem, space, each) for each in implementations(space, problem))
        accurate = [each for each in candidates if limit is None or each.predicted_error <= limit]
        accurate.sort(key=lambda each: each.predicted_seconds)
        return [each.implementation for each in accurate]

    def _measure(
        self, implementations: Sequence[Implementation], seconds: float
    ) -> dict[Implementation, Timing]:
        distinct = tuple(dict.fromkeys([self._tuned, *implementations]))
        batch = Batch(self._workload.problem, distinct, self._flags, self._device, seconds)
        ((_, outcomes),) = self._scheduler.evaluate([batch], time.monotonic() + 3600)
        return {each: outcome for each, outcome in outcomes.items() if isinstance(outcome, Timing)}


if __name__ == "__main__":
    main()
