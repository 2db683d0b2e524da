"""Compile on all cores of this machine, then measure while nothing else runs."""

from __future__ import annotations

import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from iree.winograd.errors import TuningError
from iree.winograd.pipelines.selection.implementation import Implementation
from iree.winograd.tuning.measuring.compile_job import CompileJob
from iree.winograd.tuning.measuring.outcome import Failure, Outcome

from .batch import COMPILE_SECONDS, MEASUREMENT_GRACE_SECONDS, Batch, measure_batch
from .measuring_machine import device_name
from .worker_process import CallError, WorkerLostError, WorkerProcess

KEPT_BYTES = 1 << 30
"""Of compiled programs, which are measured again while they are the best or the baseline."""


class LocalScheduler:
    """Compiles in `workers` processes, and measures in one more of its own when these have nothing to do.

    Raises ValueError for less than one worker.
    """

    capacity = 1

    def __init__(self, workers: int) -> None:
        if workers < 1:
            raise ValueError(f"there must be at least one worker, not {workers}")
        self._compilers = [WorkerProcess() for _ in range(workers)]
        self._idle = list(self._compilers)
        self._lock = threading.Lock()
        self._measurer = WorkerProcess()
        self._threads = ThreadPoolExecutor(workers, "compile")
        self._folder = tempfile.TemporaryDirectory(prefix="iree-winograd-tune-")
        self._programs: OrderedDict[CompileJob, Path] = OrderedDict()
        self._number = 0

    def resolve_flags(self, flags: tuple[str, ...]) -> tuple[str, ...]:
        return flags

    def machine(self, device: str) -> str:
        try:
            return self._measurer.call(device_name, device, timeout=MEASUREMENT_GRACE_SECONDS)
        except (CallError, WorkerLostError) as error:
            raise TuningError(str(error)) from None

    def evaluate(
        self, batches: Sequence[Batch], deadline: float
    ) -> Iterator[tuple[Batch, dict[Implementation, Outcome]]]:
        for batch in batches:
            jobs = batch.compile_jobs()
            paths = [self._path(job) for job in jobs]
            futures = [
                self._threads.submit(self._compile, job, path, deadline)
                for job, path in zip(jobs, paths, strict=True)
            ]
            outcomes, programs = _sort(batch, futures, paths)
            for job, path in zip(jobs, paths, strict=True):
                if path.exists():
                    self._programs[job] = path
                    self._programs.move_to_end(job)
            yield batch, outcomes | measure_batch(self._measurer, batch, programs)
            self._forget()

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        for compiler in self._compilers:
            compiler.kill()
        self._threads.shutdown()
        for process in (*self._compilers, self._measurer):
            process.close()
        self._folder.cleanup()

    def _path(self, job: CompileJob) -> Path:
        if job in self._programs:
            return self._programs[job]
        self._number += 1
        return Path(self._folder.name, f"{self._number}.vmfb")

    def _compile(self, job: CompileJob, path: Path, deadline: float) -> Failure | None:
        if path.exists() or time.monotonic() > deadline:
            return None
        with self._lock:
            process = self._idle.pop()
        try:
            process.call(CompileJob.write, job, path, timeout=COMPILE_SECONDS)
        except (CallError, WorkerLostError) as error:
            path.unlink(missing_ok=True)
            return Failure(f"not compiled: {error}")
        finally:
            with self._lock:
                self._idle.append(process)
        return None

    def _forget(self) -> None:
        """Remove the programs that weren't needed for longest."""
        sizes = {job: path.stat().st_size for job, path in self._programs.items()}
        total = sum(sizes.values())
        for job, size in sizes.items():
            if total <= KEPT_BYTES:
                return
            self._programs.pop(job).unlink()
            total -= size


def _sort(
    batch: Batch, futures: Sequence[Future[Failure | None]], paths: Sequence[Path]
) -> tuple[dict[Implementation, Outcome], list[tuple[Implementation, bytes | Path]]]:
    """What failed, and what there is to measure."""
    outcomes: dict[Implementation, Outcome] = {}
    programs: list[tuple[Implementation, bytes | Path]] = []
    for implementation, future, path in zip(batch.implementations, futures, paths, strict=True):
        failure = future.result()
        if failure is not None:
            outcomes[implementation] = failure
        elif path.exists():
            programs.append((implementation, path))
    return outcomes, programs
