"""The measurement of a batch in a process that a candidate may crash."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from iree.winograd.pipelines.selection.implementation import Implementation

from .batch import MEASUREMENT_GRACE_SECONDS, Batch, Outcome
from .failure import Failure
from .measurement import MeasurementJob
from .worker_process import CallError, WorkerLostError, WorkerProcess


def measure_batch(
    process: WorkerProcess, batch: Batch, programs: Sequence[tuple[Implementation, bytes | Path]]
) -> dict[Implementation, Outcome]:
    """The outcomes of those implementations of `batch` of which there are compiled programs."""
    if not programs:
        return {}
    job = batch.measurement_job(programs)
    try:
        results = process.call(MeasurementJob.run, job, timeout=batch.seconds + MEASUREMENT_GRACE_SECONDS)
    except CallError as error:
        return {implementation: Failure(f"not measured: {error}") for implementation, _ in programs}
    except WorkerLostError as error:
        if len(programs) == 1:
            return {programs[0][0]: Failure(f"not measured: {error}")}
        # One of them crashes: each by itself shows which.
        alone: dict[Implementation, Outcome] = {}
        for program in programs:
            alone |= measure_batch(process, batch, [program])
        return alone
    return {implementation: result for (implementation, _), result in zip(programs, results, strict=True)}
