"""What is predicted of implementations before any is measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from math import hypot, inf, prod, sqrt

from iree.winograd.dialect.algebra.numerics import (
    predicted_error,
    predicted_gradient_error,
    rounding_error,
)
from iree.winograd.passes.infrastructure.algorithm import Algorithm
from iree.winograd.passes.match.convolutions.problem import (
    OTHER_SIZES,
    ConvolutionProblem,
    MatmulProblem,
    WeightGradientProblem,
)
from iree.winograd.pipelines.backends.search_space import SearchSpace
from iree.winograd.pipelines.problems.schedule import Schedule
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .candidates import convolution_shape, direct_algorithm, iree_implementation, predicted_algorithms
from .decision import Candidate
from .implementation import Implementation

TIME_TOLERANCE = 0.03
"""Relative difference in predicted times that is no difference."""
_OPERAND_TYPES = {"bf16": "bfloat16", "f16": "float16"}
"""MLIR's names of types, and those of `dialect.algebra.numerics`."""
UNROUNDED_ERROR = 1e-4
"""More than an algorithm in f32 errs by, less than it does with operands that are rounded to f16."""
_IREE_MATMUL_TOLERANCE = 0.25
"""Relative difference in predicted times by which IREE's own code has to be faster for rows and a matrix.

Predictions of it are off by as much, and large matrices may take it ten times as long.
"""


def iree_tolerance(problem: ConvolutionProblem) -> float:
    """Relative difference in predicted times by which IREE's own code has to be faster."""
    return _IREE_MATMUL_TOLERANCE if isinstance(problem, MatmulProblem) else TIME_TOLERANCE


@cache
def predict(
    problem: ConvolutionProblem, space: SearchSpace, output_tile: int | None = None
) -> tuple[Candidate, ...]:
    """The algorithms for `problem`, each with the schedules that need no measurement, if any fit.

    IREE's own code is one more where there is a model of it.
    """
    ours = [
        each
        for algorithm in predicted_algorithms(problem, output_tile)
        for each in _candidates(problem, space, algorithm)
    ]
    return (*ours, *_iree_candidates(problem, space))


@cache
def predict_fastest(
    problem: ConvolutionProblem,
    space: SearchSpace,
    limit: float | None,
    output_tile: int | None = None,
    byte_price: float = 0.0,
) -> tuple[Candidate, ...]:
    """Those of `predict` that a choice is among, within a limit of the error; nothing is known of others.

    Algorithms aren't looked at that take longer than one as accurate as asked for, by more than any choice
    gives for accuracy or for the memory of filters, of which a byte is worth `byte_price` seconds, whatever
    their schedule: most of them.
    """
    tolerance = space.unknown_size_tolerance if problem.unknown_sizes else TIME_TOLERANCE
    algorithms = list(predicted_algorithms(problem, output_tile))
    shapes = {each: convolution_shape(problem, each) for each in algorithms}
    least = {each: space.least_seconds(shape) for each, shape in shapes.items()}
    price = {each: byte_price * space.least_filter_bytes(shape) for each, shape in shapes.items()}
    found: dict[Algorithm, list[Candidate]] = {}
    enough = enough_spent = inf
    for algorithm in sorted(algorithms, key=least.__getitem__):
        if least[algorithm] > enough and least[algorithm] + price[algorithm] >= enough_spent:
            continue
        found[algorithm] = _candidates(problem, space, algorithm)
        for each in found[algorithm]:
            if each.keeps(limit):
                stored = shapes[algorithm].stored_filter_bytes(each.implementation.schedule)
                enough = min(enough, (1 + tolerance) * each.predicted_seconds)
                enough_spent = min(enough_spent, each.predicted_seconds + byte_price * stored)
    ours = [each for algorithm in algorithms for each in found.get(algorithm, ())]
    return (*ours, *_iree_candidates(problem, space))


def suiting_other_sizes(
    problem: ConvolutionProblem, space: SearchSpace, candidates: Sequence[Candidate]
) -> list[Candidate]:
    """Those of `candidates` that suit images of half and of twice the expected sizes, too, if any may come.

    They are those as fast as any in the geometric mean of the three sizes, of those nearly as fast as any at
    the expected ones. A tile as large as the image that is expected computes four times as much of half that
    size, and one that is a little smaller may take as long.
    """
    ours = [each for each in candidates if not each.implementation.is_left_to_iree]
    if not problem.unknown_sizes or not ours:
        return list(candidates)
    most = (1 + space.unknown_size_tolerance) * min(each.predicted_seconds for each in ours)
    means = {
        each.implementation: prod(
            (each.predicted_seconds, *_seconds_at_other_sizes(problem, space, each.implementation))
        )
        ** (1 / (1 + len(OTHER_SIZES)))
        for each in ours
        if each.predicted_seconds <= most
    }
    least = (1 + TIME_TOLERANCE) * min(means.values())
    return [
        each
        for each in candidates
        if each.implementation.is_left_to_iree or means.get(each.implementation, inf) <= least
    ]


def _seconds_at_other_sizes(
    problem: ConvolutionProblem, space: SearchSpace, implementation: Implementation
) -> tuple[float, ...]:
    """What an implementation takes there, or its algorithm by the best schedule if blocks aren't kept."""
    algorithm, schedule = implementation.algorithm, implementation.schedule
    if not space.keeps_blocks:
        return _algorithm_seconds_at_other_sizes(problem, space, algorithm)
    shapes = (convolution_shape(problem.resized(times), algorithm) for times in OTHER_SIZES)
    return tuple(sum(space.stage_seconds(shape, schedule).values()) for shape in shapes)


@cache
def _algorithm_seconds_at_other_sizes(
    problem: ConvolutionProblem, space: SearchSpace, algorithm: Algorithm
) -> tuple[float, ...]:
    return tuple(
        min(
            (each.predicted_seconds for each in _candidates(problem.resized(times), space, algorithm)),
            default=inf,
        )
        for times in OTHER_SIZES
    )


def _candidates(problem: ConvolutionProblem, space: SearchSpace, algorithm: Algorithm) -> list[Candidate]:
    """An algorithm with the schedules that need no measurement."""
    schedules = _default_schedules(convolution_shape(problem, algorithm), space)
    return [candidate(problem, space, Implementation(algorithm, each)) for each in schedules]


def _iree_candidates(problem: ConvolutionProblem, space: SearchSpace) -> list[Candidate]:
    """IREE's own code where there is a model of it."""
    if not space.iree_stage_seconds(problem):
        return []
    return [candidate(problem, space, iree_implementation(problem))]


def predicted_seconds(
    problem: ConvolutionProblem, space: SearchSpace, max_relative_error: float | None
) -> float:
    """What the fastest implementation that is accurate enough is predicted to take; infinite without any."""
    asked = error_limit(problem, space, max_relative_error, output_tile=None)
    candidates = predict_fastest(problem, space, asked)
    limit = attainable_limit(problem, asked, candidates)
    return min((each.predicted_seconds for each in candidates if each.keeps(limit)), default=inf)


def _default_schedules(shape: ConvolutionShape, space: SearchSpace) -> Sequence[Schedule]:
    try:
        return space.default_schedules(shape)
    except ValueError:
        return ()


def assigned_schedule(
    shape: ConvolutionShape, space: SearchSpace, max_relative_error: float | None
) -> Schedule:
    """The schedule for a convolution that has its algorithm: the fastest that is accurate enough.

    Where none is, the most accurate: the algorithm is the user's. Raises ValueError where none fits.
    """
    algorithm = Algorithm(shape.decomposition.output_tile, shape.decomposition.part_size)
    limit = error_limit(shape, space, max_relative_error, output_tile=None)

    def error(schedule: Schedule) -> float:
        return algorithm_error(shape, algorithm, schedule)

    # Filters that are constant are transformed by then.
    schedules = [
        each for each in space.default_schedules(shape) if shape.runtime_filter or not each.transforms_filters
    ]
    accurate = (each for each in schedules if limit is None or error(each) <= limit)
    return next(accurate, None) or min(schedules, key=error)


def candidate(
    problem: ConvolutionProblem,
    space: SearchSpace,
    implementation: Implementation,
    measured_seconds: float | None = None,
) -> Candidate:
    """`implementation` with what is predicted of it."""
    schedule = implementation.schedule
    stage_seconds: Mapping[str, float]
    if implementation.is_left_to_iree:
        stage_seconds = space.iree_stage_seconds(problem)
    else:
        stage_seconds = space.stage_seconds(convolution_shape(problem, implementation.algorithm), schedule)
    error = implementation_error(problem, implementation)
    keeps = _keeps_operands(problem, implementation.algorithm, schedule)
    return Candidate(implementation, stage_seconds, error, measured_seconds, not keeps)


def implementation_error(problem: ConvolutionProblem, implementation: Implementation) -> float:
    """The predicted error of an algorithm by the sums and products of a schedule."""
    return algorithm_error(problem, implementation.algorithm, implementation.schedule)


def _keeps_operands(problem: ConvolutionProblem, algorithm: Algorithm, schedule: Schedule) -> bool:
    return schedule.keeps_operands(problem.exact_type, are_transformed=not algorithm.is_direct)


def error_limit(
    problem: ConvolutionProblem,
    space: SearchSpace,
    max_relative_error: float | None,
    output_tile: int | None,
) -> float | None:
    """The predicted error that no algorithm for `problem` may exceed; None where there is no limit.

    Unless options say otherwise it is that of the target, or of the direct convolution where that has more:
    leaving a convolution as it is makes it no more accurate than that. A result that is rounded to half
    precision may have twice the error of the direct convolution's in that type, its rounding included, as
    long as nothing else is rounded.
    """
    if max_relative_error is not None or output_tile is not None:
        return max_relative_error
    limit = max(space.max_relative_errors[str(problem.element_types)], direct_error(problem))
    if problem.rounded_type is None:
        return limit
    rounding = rounding_error(_OPERAND_TYPES[problem.rounded_type])
    most = 2 * hypot(direct_error(problem), rounding)
    return max(limit, min(sqrt(most**2 - rounding**2), UNROUNDED_ERROR))


def attainable_limit(
    problem: ConvolutionProblem, limit: float | None, candidates: Iterable[Candidate]
) -> float | None:
    """`limit`, or the error of the direct convolution where no candidate keeps it.

    IREE sums as that does, so that a layer that is left to it has this error anyway.
    """
    if limit is None or any(each.keeps(limit) for each in candidates):
        return limit
    return max(limit, direct_error(problem))


def direct_error(problem: ConvolutionProblem) -> float:
    """The predicted error of the direct convolution, one running sum for each output."""
    return algorithm_error(problem, direct_algorithm(problem))


def algorithm_error(
    problem: ConvolutionProblem, algorithm: Algorithm, schedule: Schedule | None = None
) -> float:
    """The predicted error of an algorithm, relative to the output in the 1-norm.

    Products are summed as `schedule` has it, by default all of them one after the other.
    """
    decomposition = algorithm.decompose(problem)
    matrix_products = 0 if schedule is None else schedule.matrix_products
    rounded = None if schedule is None else schedule.rounded_type(problem.exact_type)
    left_out = None if schedule is None else schedule.left_out_type
    if isinstance(problem, WeightGradientProblem):
        tiles = (problem.batch or 1) * prod(decomposition.tiles(problem.output_size))
        block = None if schedule is None else schedule.block_of_sum(tiles)
        keeps = schedule is not None and _keeps_operands(problem, algorithm, schedule)
        return _cached_gradient_error(
            algorithm.output_tile, algorithm.part_size, tiles, block, matrix_products, keeps
        )
    terms = problem.group_inputs * decomposition.view_count
    block = None if schedule is None else schedule.block_of_sum(terms, of_frames=problem.is_of_frames)
    return _cached_error(
        algorithm.output_tile,
        algorithm.part_size,
        problem.group_inputs,
        decomposition.view_count,
        block,
        matrix_products,
        schedule is not None and schedule.joins_sums,
        None if rounded is None else _OPERAND_TYPES[rounded],
        not (problem.runtime_filter or (schedule is not None and schedule.transforms_filters)),
        schedule is not None and _keeps_operands(problem, algorithm, schedule),
        None if left_out is None else _OPERAND_TYPES[left_out],
    )


@cache
def _cached_gradient_error(
    m: tuple[int, ...],
    p: tuple[int, ...],
    tiles: int,
    tile_block: int | None,
    matrix_products: int,
    keeps_operands: bool,
) -> float:
    return predicted_gradient_error(
        m,
        p,
        tiles,
        tile_block=tile_block,
        matrix_products=matrix_products,
        exact_products=keeps_operands and matrix_products == 1,
    )


@cache
def _cached_error(
    m: tuple[int, ...],
    p: tuple[int, ...],
    channels: int,
    views: int,
    reduction_block: int | None,
    matrix_products: int,
    joined: bool,
    operand_type: str | None,
    exact_filter: bool,
    keeps_operands: bool,
    left_out_type: str | None,
) -> float:
    return predicted_error(
        m,
        p,
        channels,
        views=views,
        reduction_block=reduction_block,
        matrix_products=matrix_products,
        joined=joined,
        operand_type=operand_type,
        exact_filter=exact_filter,
        exact_products=keeps_operands and matrix_products == 1,
        left_out_type=left_out_type,
    )
