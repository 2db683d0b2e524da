"""What IREE's own code takes on a CPU, as measured on a core of Zen 4 (`benchmarks/matmul.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

from iree.winograd.passes.match.convolutions.problem import MatmulProblem
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.machines.model import CpuMachine
from iree.winograd.pipelines.machines.units import KIBIBYTE

from .workers import Workers

RATE = 0.8
"""The part of the peak rate that products of many rows reach."""
ROW_READING = 0.3
"""The part of memory's bandwidth at which the matrix is read for a single row."""
READING = 0.4
"""The same for several rows."""
STRIDED_READING = 0.12
"""The same where the rows of the matrix lie whole pages apart, or aren't pairs of vectors."""
PAGE = 4 * KIBIBYTE
TILE_ROWS = 8
"""That IREE multiplies by the matrix before it reads it again."""


def iree_matmul_seconds(
    problem: MatmulProblem, target: CpuTarget, machine: CpuMachine, threads: int
) -> Mapping[str, float]:
    """Seconds of the stages of a product of rows and a matrix.

        filters  = bytes of the matrix / (part of memory's bandwidth)
        products = max(operations / (part of the peak rate),
                       tiles of rows * bytes of the matrix / bandwidth of the cache that holds it)

    IREE multiplies strips of the columns of a matrix that lies as the program has it, so that it reads a few
    vectors of each of its rows, one row after the other, anew for each tile of rows.
    """
    workers = Workers(machine, threads, threads)
    elements = problem.input_channels * problem.output_channels
    size = problem.element_types.filter_bytes * elements
    computed = 2 * problem.rows * elements / (RATE * machine.flops)
    read = ceil(problem.rows / TILE_ROWS) * size / machine.bandwidth(size)
    stages = {
        "filters": size / (_reading(problem, target) * workers.memory_bandwidth),
        "products": workers.load * max(computed, read) / workers.count,
    }
    waiting = workers.start_seconds + workers.waiting_seconds(stages["products"])
    return {**stages, "dispatch": machine.dispatch_seconds, "waiting": waiting}


def _reading(problem: MatmulProblem, target: CpuTarget) -> float:
    if problem.rows == 1:
        return ROW_READING
    pitch = problem.element_types.filter_bytes * problem.output_channels
    is_even = pitch % PAGE != 0 and problem.output_channels % (2 * target.vector_width) == 0
    return READING if is_even else STRIDED_READING
