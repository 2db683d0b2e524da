"""The measurement of the candidates for one layer, against each other and in the state of a network.

Calls go round robin, one of each candidate a round, so that a slow spell of the machine hits all alike.
Before a call the caches are filled with something else, and then another candidate runs on the same
arguments: in a network, filters come from memory, but the runtime and all threads are at work, and the image
comes from the layer before.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from iree.winograd.loading.device import open_device
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.targets import driver_name

from .bound_program import BoundProgram
from .layer_program import Array
from .outcome import Failure, Timing
from .program_of_problem import layer_program

EVICTION_BYTES = 64 << 20
"""Read before every call on a CPU: more than what caches hold of filters."""
MIN_ROUNDS = 7
MAX_ROUNDS = 40
ROUNDS_BETWEEN_ELIMINATIONS = 4
ERROR_TOLERANCE = 4.0
"""How many times the predicted relative error a right result may have; a wrong one is about 1 off."""


@dataclass(frozen=True)
class MeasuredProgram:
    """A compiled candidate: its .vmfb, as bytes or in a file, and the relative error to expect of it."""

    program: bytes | Path
    predicted_error: float


@dataclass(frozen=True)
class MeasurementJob:
    """Candidates for `problem` to be timed on `device`, for at most `seconds`.

    The first is the baseline, which takes part in all rounds.
    """

    problem: ConvolutionProblem
    device: str
    threads: int
    programs: tuple[MeasuredProgram, ...]
    seconds: float

    def run(self) -> tuple[Timing | Failure, ...]:
        """The timing of each program, or what is wrong with it. Raises `LoadError` without the device."""
        is_threaded = driver_name(self.device) == "local-task"
        device = open_device(self.device, self.threads if is_threaded else None)
        layer = layer_program(self.problem)
        expected, arguments = layer.expected(), [device.copy_from_host(each) for each in layer.arguments]
        bound: dict[int, BoundProgram] = {}
        results: dict[int, Timing | Failure] = {}
        for index, candidate in enumerate(self.programs):
            try:
                program = BoundProgram(candidate.program, arguments, device)
                (result,) = program.results()
                error = _relative_error(result, expected)
            except (RuntimeError, ValueError) as failure:
                results[index] = Failure(f"failed on {self.device}: {' '.join(str(failure).split())}")
                continue
            if not error <= ERROR_TOLERANCE * candidate.predicted_error:
                wrong = f"its relative error is {error:.1e}, predicted was {candidate.predicted_error:.1e}"
                results[index] = Failure(wrong, is_wrong_result=True)
                continue
            bound[index] = program
        runs = {index: program.run for index, program in bound.items()}
        prepare = _cold_filters(runs) if device.in_host_memory else _nothing
        results |= time_round_robin(runs, prepare, self.seconds)
        return tuple(results[index] for index in range(len(self.programs)))


def time_round_robin(
    runs: dict[int, Callable[[], object]],
    prepare: Callable[[int], object],
    seconds: float,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[int, Timing]:
    """Times `runs`, a call each a round, until it is clear which is the fastest, or `seconds` are over.

    There are at least seven rounds: fewer tell nothing on a busy machine.

    A run whose first quartile is above the third of the fastest leaves, but for run 0. `prepare` is called,
    untimed, before each call, with the index of its run.
    """
    if not runs:
        return {}
    samples: dict[int, list[float]] = {index: [] for index in runs}
    begin = clock()
    remaining = list(runs)
    for count in range(1, MAX_ROUNDS + 1):
        # In alternating order, so that none always follows the same other one.
        for index in remaining if count % 2 else reversed(remaining):
            prepare(index)
            start = clock()
            runs[index]()
            samples[index].append(clock() - start)
        if count >= MIN_ROUNDS and clock() - begin > seconds:
            break
        if count >= MIN_ROUNDS and (count - MIN_ROUNDS) % ROUNDS_BETWEEN_ELIMINATIONS == 0:
            contenders = _contenders({index: Timing(tuple(samples[index])) for index in remaining})
            if len(contenders) == 1:
                break
            remaining = sorted(contenders | {0} & set(runs))
    return {index: Timing(tuple(values)) for index, values in samples.items() if values}


def _contenders(timings: dict[int, Timing]) -> set[int]:
    """Those that may be the fastest."""
    _, limit = min(timings.values(), key=lambda timing: timing.median).quartiles
    return {index for index, timing in timings.items() if timing.quartiles[0] <= limit}


def _relative_error(result: Array, expected: Array) -> float:
    return float(np.abs(result - expected).sum() / np.abs(expected).sum())


def _cold_filters(runs: dict[int, Callable[[], object]]) -> Callable[[int], object]:
    other_data = np.ones(EVICTION_BYTES // 4, np.float32)

    def prepare(index: int) -> None:
        other_data.max()
        other = next((run for number, run in runs.items() if number != index), _nothing)
        other()

    return prepare


def _nothing(*_: int) -> None: ...
