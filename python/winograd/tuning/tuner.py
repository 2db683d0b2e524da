"""Tuning a program: the loop over its layers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from iree.winograd.compiling.keyword_options import make_options
from iree.winograd.compiling.option_files import check_option_files
from iree.winograd.compiling.program import Source
from iree.winograd.errors import InvalidOptionError, TuningError
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.machines.host import available_processors, physical_cores
from iree.winograd.pipelines.selection.implementation import Implementation
from iree.winograd.pipelines.selection.options import WinogradOptions
from iree.winograd.pipelines.selection.tuning_database import Measurement, TuningDatabase
from iree.winograd.targets import DEFAULT_DRIVERS, driver_name, target_flags

from .progress import Progress
from .schedule_sampler import require_optuna
from .schedulers.batch import Batch, MeasuringDevice, Scheduler
from .schedulers.local import LocalScheduler
from .search import Search
from .workloads import Workload, extract

DEFAULT_BUDGET = 600.0
DEFAULT_DATABASE = "winograd-tuning.db"
BATCH_SIZE = 8
"""New candidates of a batch."""
CONFIRMATION_SHARE = 0.15
"""Of the budget, at its end, for measuring the best ones again."""
MEASUREMENT_SECONDS = 5.0
"""Of a batch."""


@dataclass(frozen=True)
class TunedLayer:
    """What tuning found for a layer, `count` of which are in the program."""

    problem: ConvolutionProblem
    count: int
    default: Measurement | None
    """What is taken without tuning; None where the budget ended before it was measured."""
    best: Measurement | None
    measured: int
    """Implementations with a measurement, those of earlier runs included."""

    @property
    def speedup(self) -> float | None:
        """Of the best over the default."""
        return None if self.default is None or self.best is None else self.default.seconds / self.best.seconds


def tune(
    source: Source,
    *,
    target: str = "cpu",
    device: str | None = None,
    flags: Sequence[str] = (),
    database: str | Path = DEFAULT_DATABASE,
    budget: float = DEFAULT_BUDGET,
    workers: int | None = None,
    scheduler: str | None = None,
    report: Callable[[str], None] | None = None,
    **options: Any,
) -> tuple[TunedLayer, ...]:
    """Measure implementations of the layers of `source`, and record them in `database`.

    `source`, `target`, `flags` and `options` are those of `compile`; what is found holds for programs that
    are compiled with the same target, flags and number of threads. `device` is the one to measure on, a URI
    as `load` takes it, by default that of the target. `budget` is in seconds. Candidates are compiled by
    `workers` processes (by default one for each processor), or by the workers of the Dask cluster whose
    `scheduler` has this address (docs/guides/tuning.md). `report` is told, in lines, how it goes.

    It may be interrupted at any time: what was measured is in the database, and the next run goes on from
    there.

    Raises `InvalidOptionError` for options, flags, targets or devices that aren't known and for a database
    that can't be opened, `CompilationError` when the program doesn't compile as far as the choice of
    algorithms, and `TuningError` when nothing can be measured, or recorded.
    """
    require_optuna()
    say = report or (lambda line: None)
    checked = make_options(WinogradOptions, options)
    check_option_files(checked, say)
    device = DEFAULT_DRIVERS.get(target.partition(":")[0], "") if device is None else device
    if not budget > 0:
        raise InvalidOptionError(f"the budget must be positive, not {budget} s")
    if workers is not None and (workers < 1 or scheduler is not None):
        raise InvalidOptionError(
            "workers must be positive, and are those of this machine: without a scheduler"
        )
    if driver_name(device) == "local-sync" and checked.threads not in (None, 1):
        raise InvalidOptionError(f"local-sync has one thread, not {checked.threads}")
    threads = checked.threads or (1 if device.startswith("local-sync") else physical_cores())
    deadline = time.monotonic() + budget
    working = _open_scheduler(scheduler, workers)
    try:
        all_flags = working.resolve_flags((*target_flags(target), *flags))
        workloads = extract(source, all_flags, replace(checked, threads=threads))
        with _open_database(database, say) as opened:
            tuner = _Tuner(
                workloads, opened, working, all_flags, MeasuringDevice(device, threads), Progress(say, budget)
            )
            return tuner.run(deadline)
    finally:
        working.close()


class _Tuner:
    """The searches of one program, which share time by what they are expected to gain."""

    def __init__(
        self,
        workloads: Sequence[Workload],
        database: TuningDatabase,
        scheduler: Scheduler,
        flags: tuple[str, ...],
        device: MeasuringDevice,
        progress: Progress,
    ) -> None:
        self._database = database
        self._scheduler = scheduler
        self._flags = flags
        self._device = device
        self._progress = progress
        self._machine = scheduler.machine(device.uri)
        self._searches = {
            workload.problem: Search(
                workload,
                database.measurements(workload.problem, workload.space.key, machine=self._machine),
            )
            for workload in workloads
        }

    def run(self, deadline: float) -> tuple[TunedLayer, ...]:
        searches = list(self._searches.values())
        self._progress.begin(searches, self._machine)
        confirming = deadline - CONFIRMATION_SHARE * (deadline - time.monotonic())
        while time.monotonic() < deadline:
            now = time.monotonic()
            unmeasured = [search for search in searches if search.best is None and not search.is_finished]
            # Each layer gets a first batch, of its share of the time if that is short.
            limit = now + (deadline - now) / max(1, len(unmeasured))
            active = [search for search in searches if not search.is_finished]
            batches = self._search_batches(active if now < confirming else unmeasured, limit)
            batches = batches or self._confirmation_batches(deadline)
            if not batches:
                break
            for batch, outcomes in self._scheduler.evaluate(batches, limit):
                search = self._searches[batch.problem]
                measured = search.tell(outcomes)
                self._record(search, measured)
                self._progress.batch(search, outcomes)
        self._progress.end(searches)
        return tuple(map(_result, searches))

    def _record(self, search: Search, measured: Sequence[Measurement]) -> None:
        workload = search.workload
        try:
            self._database.record(workload.problem, workload.space.key, measured, machine=self._machine)
        except OSError as error:
            raise TuningError(f"can't write {error.filename}: {error.strerror}") from None
        except ValueError as error:
            # Somebody put another file in its place.
            raise TuningError(str(error)) from None

    def _search_batches(self, searches: Sequence[Search], deadline: float) -> list[Batch]:
        """Of those that promise most, new ones before others, as many as are worked on at once."""
        batches = []
        for search in sorted(
            searches, key=lambda search: (search.best is None, search.expected_gain), reverse=True
        ):
            implementations = search.propose(BATCH_SIZE)
            if not implementations:
                search.end()
                continue
            batches.append(self._batch(search, implementations, deadline))
            if len(batches) == self._scheduler.capacity:
                break
        return batches

    def _confirmation_batches(self, deadline: float) -> list[Batch]:
        batches = (
            self._batch(search, implementations, deadline)
            for search in self._searches.values()
            if (implementations := search.confirm())
        )
        return list(islice(batches, self._scheduler.capacity))

    def _batch(self, search: Search, implementations: tuple[Implementation, ...], deadline: float) -> Batch:
        seconds = min(MEASUREMENT_SECONDS, max(1.0, deadline - time.monotonic()))
        return Batch(search.workload.problem, implementations, self._flags, self._device, seconds)


def _result(search: Search) -> TunedLayer:
    workload = search.workload
    return TunedLayer(
        workload.problem,
        workload.count,
        search.measurements.get(search.baseline),
        search.best,
        len(search.measurements),
    )


def _open_scheduler(address: str | None, workers: int | None) -> Scheduler:
    if address is None:
        return LocalScheduler(available_processors() if workers is None else workers)
    from .schedulers.dask import DaskScheduler

    return DaskScheduler(address)


def _open_database(path: str | Path, report: Callable[[str], None]) -> TuningDatabase:
    try:
        return TuningDatabase(path, report=report)
    except (OSError, ValueError) as error:
        raise InvalidOptionError(f"the tuning database can't be opened: {error}") from None
