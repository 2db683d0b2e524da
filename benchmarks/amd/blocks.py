"""Why layers on RDNA's GPUs have kernels whose threads have few sums: of each kind of kernel how many do.

    python -m benchmarks.amd.zoo_layers >layers.txt
    python -m benchmarks.amd.blocks --layers layers.txt --targets vulkan:rdna3 vulkan:rdna4

Nothing is compiled. A block of 64 x 64 sums, 8 x 8 of a thread, is the smallest with a bound above 0.85
(`docs/measurements/amd.md`). Two warps of such threads in each SIMD have `sums_of_two_warps` sums. A layer
that has fewer leaves SIMDs one warp or none. One that has more may have a smaller block where the compute
unit that has most to do would do more by blocks of 64 x 64, as edges or the last round of workgroups leave.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from math import prod
from pathlib import Path

from iree.winograd.calibration.programs import backend_of
from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.passes.match.problem import ConvolutionProblem
from iree.winograd.pipelines.gpu.backend import GpuBackend
from iree.winograd.pipelines.gpu.schedules.fused import FusedSchedule
from iree.winograd.pipelines.gpu.schedules.gemm import GemmSchedule
from iree.winograd.pipelines.gpu.schedules.matrix import MatrixSchedule
from iree.winograd.pipelines.problems.shape import ConvolutionShape
from iree.winograd.pipelines.selection.candidates import convolution_shape
from iree.winograd.pipelines.selection.decision import Candidate

from benchmarks.amd.predicted import predicted
from benchmarks.tables.markdown import table

LARGE = 64
"""Rows and columns of the smallest block whose bound is above 0.85."""
_SIMDS, _WARPS, _THREADS, _SUMS = 2, 2, 32, 8 * 8
"""Of a compute unit, of each of these, of a warp, and of a thread."""

LEFT, OTHER, MATRICES, FUSED = "left to IREE", "depthwise and grouped", "matrix units", "fused"
WIDE = f"blocks of {LARGE} x {LARGE} or more"
FEW = "smaller blocks: fewer sums than two warps of 8 x 8 a SIMD"
FULLER = f"smaller blocks: more to do for a compute unit by {LARGE} x {LARGE}"
SMALL = "smaller blocks: others"
CAUSES = (LEFT, OTHER, MATRICES, FUSED, WIDE, FEW, FULLER, SMALL)


def sums_of_two_warps(compute_units: int) -> int:
    """Of threads with 8 x 8 sums, in all SIMDs of so many compute units."""
    return compute_units * _SIMDS * _WARPS * _THREADS * _SUMS


def cause(problem: ConvolutionProblem, chosen: Candidate | None, compute_units: int) -> str:
    """One of `CAUSES`."""
    if chosen is None:
        return LEFT
    schedule = chosen.implementation.schedule
    if isinstance(schedule, FusedSchedule):
        return FUSED
    if isinstance(schedule, MatrixSchedule):
        return MATRICES
    if not isinstance(schedule, GemmSchedule):
        return OTHER
    if min(schedule.block_rows, schedule.block_columns) >= LARGE and schedule.thread_columns >= 8:
        return WIDE
    shape = convolution_shape(problem, chosen.implementation.algorithm)
    rows, products = shape.images * prod(shape.tiles_per_image), shape.transform_size * problem.groups
    if rows * shape.group_outputs * products < sums_of_two_warps(compute_units):
        return FEW
    own = _most_sums(shape, products, schedule, compute_units)
    large = GemmSchedule(LARGE, LARGE, schedule.block_reduction, reduction_parts=schedule.reduction_parts)
    return FULLER if _most_sums(shape, products, large, compute_units) > own else SMALL


def _most_sums(shape: ConvolutionShape, products: int, schedule: GemmSchedule, compute_units: int) -> int:
    """Of the compute unit that has most to do."""
    rows = ceil_div(shape.images * prod(shape.tiles_per_image), schedule.block_rows)
    columns = ceil_div(shape.group_outputs, schedule.block_columns)
    workgroups = rows * columns * products * schedule.reduction_parts
    return ceil_div(workgroups, compute_units) * schedule.block_rows * schedule.block_columns


def causes(layers: Sequence[ConvolutionProblem], target: str) -> Counter[str]:
    """How many layers have each on one of IREE's targets."""
    backend = backend_of(target)
    assert isinstance(backend, GpuBackend)
    space = backend.search_space()
    units = space.machine.multiprocessors
    return Counter(cause(layer, predicted(layer, space).chosen, units) for layer in layers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--layers", type=Path, required=True, help="a file of them")
    parser.add_argument("--targets", nargs="+", default=["vulkan:rdna3", "vulkan:rdna4"])
    arguments = parser.parse_args()
    layers = list(map(ConvolutionProblem.parse, arguments.layers.read_text().splitlines()))
    found = [causes(layers, target) for target in arguments.targets]
    rows = [(each, *(str(counts[each]) for counts in found)) for each in CAUSES]
    print(*table((f"of {len(layers)} layers", *arguments.targets), rows), sep="\n")


if __name__ == "__main__":
    main()
