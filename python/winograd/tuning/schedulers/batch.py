"""Candidates for one convolution that are to be compiled, and then measured side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.selection.implementation import Implementation
from iree.winograd.pipelines.selection.prediction import implementation_error
from iree.winograd.tuning.measuring.compile_job import CompileJob
from iree.winograd.tuning.measuring.measurement import MeasuredProgram, MeasurementJob
from iree.winograd.tuning.measuring.outcome import Failure, Outcome

from .worker_process import CallError, WorkerLostError, WorkerProcess

COMPILE_SECONDS = 120.0
"""A compiler that takes longer hangs."""
MEASUREMENT_GRACE_SECONDS = 120.0
"""On top of a measurement's own time, for loading programs and computing the reference."""


@dataclass(frozen=True)
class MeasuringDevice:
    """Where programs run: a URI of IREE's runtime, and threads where that is a CPU."""

    uri: str
    threads: int


@dataclass(frozen=True)
class Batch:
    """Implementations of `problem`; the first is the baseline that the others are compared with."""

    problem: ConvolutionProblem
    implementations: tuple[Implementation, ...]
    flags: tuple[str, ...]
    device: MeasuringDevice
    seconds: float
    """That the measurement, once all are compiled, may take."""

    def compile_jobs(self) -> tuple[CompileJob, ...]:
        return tuple(CompileJob(self.problem, each, self.flags) for each in self.implementations)

    def measurement_job(self, programs: Sequence[tuple[Implementation, bytes | Path]]) -> MeasurementJob:
        """The measurement of those implementations that did compile."""
        measured = (
            MeasuredProgram(program, implementation_error(self.problem, implementation))
            for implementation, program in programs
        )
        return MeasurementJob(
            self.problem, self.device.uri, self.device.threads, tuple(measured), self.seconds
        )


class Scheduler(Protocol):
    """Compiles and measures, on this machine or on others."""

    capacity: int
    """Batches that are worked on at once."""

    def resolve_flags(self, flags: tuple[str, ...]) -> tuple[str, ...]:
        """`flags` as they are to be passed where programs are compiled, for where they are measured."""

    def machine(self, device: str) -> str:
        """The name of the processor or device that measures."""

    def evaluate(
        self, batches: Sequence[Batch], deadline: float
    ) -> Iterator[tuple[Batch, dict[Implementation, Outcome]]]:
        """The outcomes of each batch as soon as it is measured.

        What can't be begun before `deadline`, on the clock of `time.monotonic`, is missing in the outcomes.
        Raises `TuningError` when there is nothing that could measure.
        """

    def close(self) -> None:
        """End all work; safe at any time."""


def measure_batch(
    process: WorkerProcess, batch: Batch, programs: Sequence[tuple[Implementation, bytes | Path]]
) -> dict[Implementation, Outcome]:
    """The outcomes of those implementations of `batch` of which there are compiled programs.

    They run in `process`, which one of them may crash.
    """
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
