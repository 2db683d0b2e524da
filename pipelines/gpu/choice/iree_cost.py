"""What IREE's own code takes on a GPU, as measured on an H200 (`benchmarks/gpu_matmul.py`)."""

from __future__ import annotations

from collections.abc import Mapping

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.passes.match.problem import MatmulProblem
from iree.winograd.pipelines.machines.model import GpuMachine

from .cost_model import PRODUCT_LATENCY, launch_seconds

BLOCKED_ROWS, BLOCK, RATE = 8, 256, 0.062
"""From so many rows on IREE multiplies by blocks of so many, at this part of the peak rate."""


def iree_matmul_seconds(problem: MatmulProblem, machine: GpuMachine) -> Mapping[str, float]:
    """Seconds of the product of rows and a matrix.

    For a few rows it takes as long as reading the matrix once for each, for more as long as blocks of 256
    rows at a small part of the peak rate, however many of them there are.
    """
    elements = problem.input_channels * problem.output_channels
    if problem.rows < BLOCKED_ROWS:
        matrix = problem.element_types.filter_bytes * elements
        computed = problem.rows * matrix / machine.bandwidth(matrix)
    else:
        blocked = ceil_div(problem.rows, BLOCK) * BLOCK
        computed = 2 * blocked * elements / (RATE * machine.flops)
    return {"products": PRODUCT_LATENCY + computed, "launch": launch_seconds(machine)}
