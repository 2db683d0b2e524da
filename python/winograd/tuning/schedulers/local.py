"""Compile on all cores of this machine, then measure while nothing else runs."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO

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
        self._programs: OrderedDict[CompileJob, _TemporaryFile] = OrderedDict()

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
            for job in jobs:
                self._programs.setdefault(job, _TemporaryFile())
                self._programs.move_to_end(job)
            files = [self._programs[job] for job in jobs]
            futures = [
                self._threads.submit(self._compile, job, file, deadline)
                for job, file in zip(jobs, files, strict=True)
            ]
            outcomes, programs = _sort(batch, futures, files)
            yield batch, outcomes | measure_batch(self._measurer, batch, programs)
            self._forget()

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        for compiler in self._compilers:
            compiler.kill()
        self._threads.shutdown()
        for process in (*self._compilers, self._measurer):
            process.close()
        for file in self._programs.values():
            file.close()

    def _compile(self, job: CompileJob, file: _TemporaryFile, deadline: float) -> Failure | None:
        if file.size or time.monotonic() > deadline:
            return None
        with self._lock:
            process = self._idle.pop()
        try:
            process.call(CompileJob.write, job, file.path, timeout=COMPILE_SECONDS)
        except (CallError, WorkerLostError) as error:
            # It may have ended in the midst of writing.
            file.clear()
            return Failure(f"not compiled: {error}")
        finally:
            with self._lock:
                self._idle.append(process)
        return None

    def _forget(self) -> None:
        """Close the files that hold nothing, and those that weren't needed for longest."""
        total = sum(file.size for file in self._programs.values())
        for job, file in list(self._programs.items()):
            if not file.size or total > KEPT_BYTES:
                total -= file.size
                self._programs.pop(job).close()


class _TemporaryFile:
    """A file that others find by `path`. On Linux it is gone with this process, however that ends."""

    def __init__(self) -> None:
        self._unnamed: IO[bytes] | None = None
        if sys.platform == "linux":
            self._unnamed = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the object)
            self.path = Path(f"/proc/{os.getpid()}/fd/{self._unnamed.fileno()}")
        else:
            descriptor, name = tempfile.mkstemp(prefix="winograd-")
            os.close(descriptor)
            self.path = Path(name)

    @property
    def size(self) -> int:
        return self.path.stat().st_size

    def clear(self) -> None:
        os.truncate(self.path, 0)

    def close(self) -> None:
        if self._unnamed is None:
            self.path.unlink(missing_ok=True)
        else:
            self._unnamed.close()


def _sort(
    batch: Batch, futures: Sequence[Future[Failure | None]], files: Sequence[_TemporaryFile]
) -> tuple[dict[Implementation, Outcome], list[tuple[Implementation, bytes | Path]]]:
    """What failed, and what there is to measure."""
    outcomes: dict[Implementation, Outcome] = {}
    programs: list[tuple[Implementation, bytes | Path]] = []
    for implementation, future, file in zip(batch.implementations, futures, files, strict=True):
        failure = future.result()
        if failure is not None:
            outcomes[implementation] = failure
        elif file.size:
            programs.append((implementation, file.path))
    return outcomes, programs
