"""What a tuning database knows of the implementations of a convolution."""

from __future__ import annotations

from collections.abc import Callable, Sized

from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.backends.search_space import SearchSpace
from iree.winograd.pipelines.problems.schedule import FILTER_TRANSFORM_STAGE

from .candidates import candidate_algorithms, convolution_shape
from .decision import Candidate
from .implementation import Arithmetic
from .prediction import candidate
from .tuning_database import TuningDatabase


def measured_candidates(
    database: TuningDatabase,
    problem: ConvolutionProblem,
    space: SearchSpace,
    output_tile: int | None,
    ignore: Callable[[str], None],
) -> tuple[Candidate, ...]:
    """The fastest measured schedule of each algorithm that `predict` has, too, fastest first.

    Of kernels that split products, which round otherwise, it is one more, and so is IREE's own code, beside
    our kernels for the direct convolution.

    A filter that is known only at run time adds what its transform is predicted to take. `ignore` is told in
    a clause which measurements of the problem don't count, and why.
    """
    algorithms = set(candidate_algorithms(problem, output_tile))
    found: dict[Arithmetic, Candidate] = {}
    refused: list[str] = []
    constant = problem.measured
    for measurement in database.measurements(constant, space.key):
        implementation = measurement.implementation
        algorithm = implementation.algorithm
        if algorithm not in algorithms or implementation.arithmetic in found:
            continue
        shape = convolution_shape(problem, algorithm)
        # Images that a kernel doesn't take channels first are transposed for it.
        if not implementation.is_left_to_iree and (
            reason := space.misfit(shape.channels_last, implementation.schedule)
        ):
            refused.append(f"{algorithm}: {reason}")
            continue
        seconds = measurement.seconds
        if not implementation.is_left_to_iree:
            stages = space.stage_seconds(shape, implementation.schedule)
            seconds += stages.get(FILTER_TRANSFORM_STAGE, 0.0)
        found[implementation.arithmetic] = candidate(problem, space, implementation, seconds)
    if refused:
        ignore(f"{_count(refused)} the target has no kernel for: {refused[0]}")
    if others := database.others(constant, space.key):
        ignore(f"{_count(others)} of other versions, targets or machines")
    return tuple(sorted(found.values(), key=lambda each: each.measured_seconds or 0.0))


def _count(measurements: Sized) -> str:
    return f"{len(measurements)} measurement{'s' * (len(measurements) != 1)}"
