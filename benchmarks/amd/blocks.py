"""Why layers on AMD's GPUs have kernels whose loops are bound below 0.85 of the peak rate, and what else they
would take: of each target and cause how many layers there are, and the fastest kernels with higher bounds.

    python -m benchmarks.amd.zoo_layers >layers.txt
    python -m benchmarks.amd.blocks --layers layers.txt --targets vulkan:rdna3 hip:gfx950
    python -m benchmarks.amd.blocks --each                   # of well-known layers, a line of each
    python -m benchmarks.amd.blocks --layers layers.txt --output benchmarks/results/amd-blocks.json

Nothing is compiled. Bounds are by what vector units, matrix units and shared memory do in a cycle, as loops
then have them (`docs/measurements/amd.md`). Of layers below 0.85 all algorithms and schedules are predicted
that have more and err as little: `times` is what the fastest of these takes by what the chosen one takes.

On RDNA a block of 64 x 64 sums, 8 x 8 of a thread, is the smallest above 0.85. Two warps of such threads in
each SIMD have `sums_of_two_warps` sums. A layer that has fewer leaves SIMDs one warp or none. One that has
more may have a smaller block where the compute unit that has most to do would do more by blocks of 64 x 64,
as edges or the last round of workgroups leave.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from statistics import median
from types import MappingProxyType

from iree.winograd.calibration.programs import backend_of
from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.gpu.backend import GpuBackend
from iree.winograd.pipelines.gpu.choice.candidate_schedules import schedules
from iree.winograd.pipelines.gpu.choice.rates import DUAL_ISSUING_THREADS
from iree.winograd.pipelines.gpu.choice.search_space import GpuSearchSpace
from iree.winograd.pipelines.gpu.schedules.fused import FusedSchedule
from iree.winograd.pipelines.gpu.schedules.gemm import GemmSchedule, MfmaGemmSchedule
from iree.winograd.pipelines.gpu.schedules.matrix import MatrixSchedule
from iree.winograd.pipelines.gpu.schedules.split import WarpSchedule
from iree.winograd.pipelines.gpu.schedules.warps import warp_count
from iree.winograd.pipelines.problems.schedule import Schedule
from iree.winograd.pipelines.problems.shape import ConvolutionShape
from iree.winograd.pipelines.selection.candidates import convolution_shape, predicted_algorithms
from iree.winograd.pipelines.selection.decision import Candidate
from iree.winograd.pipelines.selection.implementation import Implementation
from iree.winograd.pipelines.selection.prediction import candidate

from benchmarks.amd.bounds import Architecture, architecture_of
from benchmarks.amd.causes import (
    CAUSES,
    ENOUGH,
    FEW,
    FULLER,
    FUSED,
    HIGH,
    LARGE,
    LEFT,
    LOW,
    MATRICES,
    OTHER,
    SMALL,
)
from benchmarks.amd.layers import LAYERS, layer_problem
from benchmarks.amd.predicted import predicted
from benchmarks.amd.rocm import TARGETS as ROCM_TARGETS
from benchmarks.results_file import ResultsFile
from benchmarks.tables.amd import blocks as shown
from benchmarks.tables.markdown import table

TARGETS: Mapping[str, str] = MappingProxyType(
    {
        "vulkan:rdna2": "gfx1030",
        "vulkan:rdna3": "gfx1100",
        "vulkan:rdna4": "gfx1201",
        **{f"hip:{chip}": chip for chip in ROCM_TARGETS},
    }
)
"""The chips whose rates IREE's targets are predicted by."""
_COMPUTING: Mapping[int, float] = MappingProxyType({128: 0.95, 64: 0.95, 32: 0.85, 16: 0.80})
"""Bounds of multiply-adds by other instructions of loops, by the sums of a thread."""
_PAIRS = 0.75
"""The bound of these by what Mesa finds to issue two at once."""
_SHARED_BYTES = 128
"""That shared memory moves in a cycle."""
_F32_BYTES, _SPLIT_BYTES = 4, 4
"""Of a number, and of two parts in fp16."""
_WARPS, _THREADS, _SUMS = 2, 32, 8 * 8
"""Of a SIMD, of one of these, and of a thread."""

_BoundOf = Callable[[Schedule], float | None]


@dataclass(frozen=True)
class Block:
    """Of a layer that has a lower bound what is chosen, and the fastest of what has a higher one."""

    layer: ConvolutionProblem
    cause: str
    chosen: Candidate
    higher: Candidate | None
    """None where no kernel fits that errs as little."""

    @property
    def times(self) -> float:
        """What the other is predicted to take by what the chosen one is."""
        assert self.higher is not None
        return self.higher.predicted_seconds / self.chosen.predicted_seconds


def bound(schedule: Schedule, architecture: Architecture, *, by_mesa: bool) -> float | None:
    """The part of the peak rate that the main loop of products could reach; None of other kernels."""
    if isinstance(schedule, MfmaGemmSchedule):
        # They read operands from caches.
        return 1.0
    if isinstance(schedule, GemmSchedule):
        pairs = by_mesa and architecture.doubles and schedule.threads == DUAL_ISSUING_THREADS
        a_cycle = architecture.simds * architecture.multiply_adds
        of_threads = schedule.threads * (schedule.thread_rows + schedule.thread_columns)
        shared = _bound_by_sharing(schedule, of_threads * _F32_BYTES, _F32_BYTES, 1, a_cycle)
        return min(_PAIRS if pairs else _COMPUTING[schedule.sums], shared)
    if isinstance(schedule, WarpSchedule):
        a_cycle = architecture.simds * architecture.matrix["f16"]
        of_warps = warp_count(schedule) * (schedule.warp_rows + schedule.warp_columns) * _SPLIT_BYTES
        products = schedule.matrix_products
        return min(1.0, _bound_by_sharing(schedule, of_warps, _SPLIT_BYTES, products, a_cycle))
    return None


def _bound_by_sharing(
    schedule: GemmSchedule | WarpSchedule, loaded: int, element: int, products: int, a_cycle: int
) -> float:
    """Of a term of the reduction, whose loads for all threads are so many bytes; it is stored once."""
    stored = (schedule.block_rows + schedule.block_columns) * element
    computing = products * schedule.block_rows * schedule.block_columns / a_cycle
    return computing * _SHARED_BYTES / (loaded + stored)


def sums_of_two_warps(compute_units: int, simds: int = 2) -> int:
    """Of threads with 8 x 8 sums, in all SIMDs of so many compute units."""
    return compute_units * simds * _WARPS * _THREADS * _SUMS


def cause(
    problem: ConvolutionProblem, chosen: Candidate | None, compute_units: int, bound_of_loop: float | None
) -> str:
    """One of `CAUSES`."""
    if chosen is None:
        return LEFT
    schedule = chosen.implementation.schedule
    if isinstance(schedule, FusedSchedule):
        return FUSED
    if bound_of_loop is None:
        return OTHER
    if bound_of_loop >= ENOUGH:
        return HIGH
    if isinstance(schedule, MatrixSchedule):
        return MATRICES
    assert isinstance(schedule, GemmSchedule)
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


def _higher(
    problem: ConvolutionProblem, space: GpuSearchSpace, limit: float | None, bound_of: _BoundOf
) -> Candidate | None:
    """The fastest implementation whose bound is high enough, and that errs no more than the limit."""

    def those() -> Iterator[Candidate]:
        for algorithm in predicted_algorithms(problem, None):
            shape = convolution_shape(problem, algorithm)
            for schedule in schedules(shape.channels_last, space.target, space.machine):
                reached = bound_of(schedule)
                if reached is not None and reached >= ENOUGH:
                    yield candidate(problem, space, Implementation(algorithm, schedule))

    accurate = (each for each in those() if each.keeps(limit))
    return min(accurate, key=lambda each: each.predicted_seconds, default=None)


def blocks(layers: Sequence[ConvolutionProblem], target: str) -> Iterator[tuple[str, Block | None]]:
    """The cause of each layer's bound on one of `TARGETS`, and what else those have that are lower."""
    backend = backend_of(target)
    assert isinstance(backend, GpuBackend)
    space = backend.search_space()
    bound_of = partial(
        bound, architecture=architecture_of(TARGETS[target]), by_mesa=target.startswith("vulkan:")
    )
    for layer in layers:
        found = predicted(layer, space)
        chosen = found.chosen
        reached = None if chosen is None else bound_of(chosen.implementation.schedule)
        reason = cause(layer, chosen, space.machine.multiprocessors, reached)
        if reason not in LOW:
            yield reason, None
            continue
        assert chosen is not None
        yield reason, Block(layer, reason, chosen, _higher(layer, space, found.limit, bound_of))


def counted(target: str, found: Sequence[tuple[str, Block | None]]) -> dict[str, dict[str, object]]:
    """Rows of each cause."""
    rows = {}
    for reason in CAUSES:
        own = [block for each, block in found if each == reason]
        times = sorted(block.times for block in own if block is not None and block.higher is not None)
        row: dict[str, object] = {"target": target, "cause": reason, "layers": len(own)}
        if times:
            row["times"] = [round(each, 3) for each in (times[0], median(times), times[-1])]
            row["without"] = len(own) - len(times)
        rows[f"{target}, {reason}"] = row
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--layers", type=Path, help="a file of them; those of `benchmarks.amd` without")
    parser.add_argument("--targets", nargs="+", choices=TARGETS, default=list(TARGETS))
    parser.add_argument("--each", action="store_true", help="a line of each layer with a lower bound")
    parser.add_argument("--output", type=Path, help="a JSON file; what is missing is added")
    arguments = parser.parse_args()
    layers = (
        list(map(layer_problem, LAYERS.values()))
        if arguments.layers is None
        else list(map(ConvolutionProblem.parse, arguments.layers.read_text().splitlines()))
    )
    results = ResultsFile(arguments.output, "blocks")
    for target in arguments.targets:
        if f"{target}, {LEFT}" in results.rows:
            continue
        found = list(blocks(layers, target))
        results.add_all(counted(target, found))
        if arguments.each:
            lines = [_line(block) for _, block in found if block is not None]
            print(f"\n{target}\n", *table(_HEADS, lines), sep="\n", flush=True)
    print("", *shown([{"blocks": results.rows}]), sep="\n")


_HEADS = ("layer", "cause", "chosen", "us", "fastest with a higher bound", "us", "times")


def _line(block: Block) -> tuple[str, ...]:
    higher = () if block.higher is None else (*_described(block.higher), f"{block.times:.2f}")
    return (str(block.layer), block.cause, *_described(block.chosen), *higher, *[""] * (3 - len(higher)))


def _described(each: Candidate) -> tuple[str, str]:
    schedule = each.implementation.schedule
    block = "x".join(
        str(getattr(schedule, name)) for name in ("block_rows", "block_columns") if hasattr(schedule, name)
    )
    described = f"{each.implementation.algorithm}, {schedule.kind} {block}".strip()
    return described, f"{1e6 * each.predicted_seconds:.1f}"


if __name__ == "__main__":
    main()
