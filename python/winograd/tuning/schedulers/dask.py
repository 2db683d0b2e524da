"""Compile and measure on other machines, by the workers of a Dask cluster.

Workers that were started with the resource `device` measure, one batch for each unit of it at a time. All
others compile, and if there are none, those that measure do. Both let a process of their own do the work, so
that a crash of the compiler or of a candidate leaves the worker alone. When a worker is lost, the cluster
gives what it did to another one.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from iree.winograd.errors import InvalidOptionError, TuningError
from iree.winograd.pipelines.selection.implementation import Implementation
from iree.winograd.tuning.measuring.compile_job import CompileJob
from iree.winograd.tuning.measuring.outcome import Failure, Outcome

from .batch import COMPILE_SECONDS, Batch, measure_batch
from .measuring_machine import device_name, resolve_flags
from .worker_process import CallError, WorkerLostError, WorkerProcess

if TYPE_CHECKING:
    from distributed import Client, Future

DEVICE_RESOURCE = "device"
CONNECTION_SECONDS = 30.0


class DaskScheduler:
    """The cluster whose scheduler has `address`.

    Raises `InvalidOptionError` where Dask isn't installed, and `TuningError` when the scheduler can't be
    reached or none of its workers measures.
    """

    def __init__(self, address: str) -> None:
        try:
            import distributed
        except ImportError as error:
            raise InvalidOptionError(
                f"a scheduler needs more packages (`pip install iree-winograd[tune]`): {error}"
            ) from None
        try:
            self._client: Client = distributed.Client(
                address, timeout=CONNECTION_SECONDS, set_as_default=False
            )
        except (OSError, ValueError, asyncio.TimeoutError) as error:
            raise TuningError(f"no Dask scheduler at {address!r}: {error}") from None
        self._compilers, measurers = self._workers()
        # While some measure, candidates for others are compiled.
        self.capacity = 2 * measurers
        self._threads = ThreadPoolExecutor(self.capacity, "batch")

    def resolve_flags(self, flags: tuple[str, ...]) -> tuple[str, ...]:
        # Where it is compiled, `host` would be another processor.
        resolved: tuple[str, ...] = self._on_device(resolve_flags, flags).result()
        return resolved

    def machine(self, device: str) -> str:
        name: str = self._on_device(device_name, device).result()
        return name

    def evaluate(
        self, batches: Sequence[Batch], deadline: float
    ) -> Iterator[tuple[Batch, dict[Implementation, Outcome]]]:
        evaluating = {self._threads.submit(self._evaluate, batch, deadline): batch for batch in batches}
        for finished in as_completed(evaluating):
            yield evaluating[finished], finished.result()

    def close(self) -> None:
        self._client.close()
        self._threads.shutdown(cancel_futures=True)

    def _workers(self) -> tuple[list[str], int]:
        """The addresses of those that only compile, and how many batches the others measure at a time."""
        workers = self._client.scheduler_info(n_workers=-1)["workers"]
        units = {address: worker["resources"].get(DEVICE_RESOURCE, 0) for address, worker in workers.items()}
        if not any(units.values()):
            self._client.close()
            raise TuningError(
                f"none of the cluster's {len(workers)} workers measures: start those with the device by "
                f'dask worker ... --nthreads 1 --resources "{DEVICE_RESOURCE}=1"'
            )
        return [address for address, count in units.items() if not count], int(sum(units.values()))

    def _on_device(self, function: Callable[..., Any], *arguments: Any) -> Future:
        return self._client.submit(function, *arguments, resources={DEVICE_RESOURCE: 1}, pure=False)

    def _evaluate(self, batch: Batch, deadline: float) -> dict[Implementation, Outcome]:
        from distributed import wait

        compiled = [
            self._client.submit(
                _compile, job, workers=self._compilers or None, allow_other_workers=True, pure=False
            )
            for job in batch.compile_jobs()
        ]
        with self._client.as_current(), suppress(asyncio.TimeoutError):
            wait(compiled, timeout=max(0.0, deadline - time.monotonic()))
        outcomes: dict[Implementation, Outcome] = {}
        programs: list[tuple[Implementation, Future]] = []
        for implementation, future in zip(batch.implementations, compiled, strict=True):
            if future.status == "finished":
                programs.append((implementation, future))
            elif future.status == "error":
                outcomes[implementation] = Failure(f"not compiled: {future.exception()}")
            else:
                future.cancel()
        try:
            measured: dict[Implementation, Outcome] = self._on_device(_measure, batch, programs).result()
        except Exception as error:
            # Dask raises whatever ended the last of the workers that it tried.
            reason = " ".join(f"not measured: {error}".split())
            measured = {implementation: Failure(reason) for implementation, _ in programs}
        return outcomes | measured


_local = threading.local()


def _process() -> WorkerProcess:
    """This thread's, for as long as the worker lives."""
    if not hasattr(_local, "process"):
        _local.process = WorkerProcess()
    process: WorkerProcess = _local.process
    return process


def _compile(job: CompileJob) -> bytes | Failure:
    try:
        return _process().call(CompileJob.run, job, timeout=COMPILE_SECONDS)
    except (CallError, WorkerLostError) as error:
        return Failure(f"not compiled: {error}")


def _measure(
    batch: Batch, compiled: Sequence[tuple[Implementation, bytes | Failure]]
) -> dict[Implementation, Outcome]:
    failed = {each: program for each, program in compiled if isinstance(program, Failure)}
    programs = [(each, program) for each, program in compiled if not isinstance(program, Failure)]
    return failed | measure_batch(_process(), batch, programs)
