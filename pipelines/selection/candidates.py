"""The algorithms and implementations to choose from for a convolution."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product
from math import lcm

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.decomposition import decompose
from iree.winograd.passes.infrastructure.algorithm import Algorithm
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem, WeightGradientProblem
from iree.winograd.pipelines.backends.schedules import IreeSchedule
from iree.winograd.pipelines.backends.search_space import SearchSpace
from iree.winograd.pipelines.problems.shape import ConvolutionShape, WeightGradientShape

from .implementation import Implementation

MAX_CHOSEN_OUTPUT_TILE = 6
MAX_CHOSEN_ALPHA = 8
MAX_PARTS = 4
"""Parts that the taps of one dimension and phase of the stride are split into at most."""

FEWER_PRODUCTS = 0.9
"""Times the products of another tile in one dimension: with so few the other is never faster."""


@cache
def convolution_shape(problem: ConvolutionProblem, algorithm: Algorithm) -> ConvolutionShape:
    """What the kernels that compute `problem` by `algorithm` are told."""
    kind: type[ConvolutionShape] = (
        WeightGradientShape if isinstance(problem, WeightGradientProblem) else ConvolutionShape
    )
    return kind.decomposed(problem, algorithm.decompose(problem))


def direct_algorithm(problem: ConvolutionProblem) -> Algorithm:
    """Every output by itself, as convolution is defined."""
    return Algorithm((1,) * problem.spatial_rank, (1,) * problem.spatial_rank)


def iree_implementation(problem: ConvolutionProblem) -> Implementation:
    """IREE's own code for `problem`."""
    return Implementation(direct_algorithm(problem), IreeSchedule())


def candidate_algorithms(problem: ConvolutionProblem, output_tile: int | None = None) -> Iterator[Algorithm]:
    """The algorithms to choose from; with an `output_tile`, only those of this size where tiles have a gain.

    A dimension of a single tap, or of one tap per phase of its stride, has none, nor has a depthwise
    convolution, which has no sum over channels to amortise transforms. Frames of a signal, as of a Fourier
    transform, are multiplied as they are: their outputs differ in size by orders of magnitude, and logarithms
    are taken of them, while a tile's errors are in proportion to its largest.
    """
    rank = problem.spatial_rank
    direct = direct_algorithm(problem)
    if output_tile == 1 or problem.is_of_frames or (problem.groups > 1 and problem.group_inputs == 1):
        yield direct
        return
    tiled = [
        Algorithm(tuple(m for m, _ in chosen), tuple(p for _, p in chosen))
        for chosen in product(*(_tiles_and_parts(problem, d, output_tile) for d in range(rank)))
    ]
    if output_tile is None or tiled == [direct]:
        yield direct
    yield from (algorithm for algorithm in tiled if not algorithm.is_direct)


def predicted_algorithms(problem: ConvolutionProblem, output_tile: int | None = None) -> Iterator[Algorithm]:
    """Those of `candidate_algorithms` that may be the fastest of all as accurate: half of them, or a third.

    Others are outdone in a dimension: by tiles no larger, of no more parts, for which there are fewer
    products, or by each output for itself, for which there are no more, where another tile is left.
    """
    efficient = [_efficient(problem, dimension, output_tile) for dimension in range(problem.spatial_rank)]
    for algorithm in candidate_algorithms(problem, output_tile):
        chosen = zip(algorithm.output_tile, algorithm.part_size, strict=True)
        if algorithm.is_direct or all(pair in pairs for pair, pairs in zip(chosen, efficient, strict=True)):
            yield algorithm


def implementations(space: SearchSpace, problem: ConvolutionProblem) -> Iterator[Implementation]:
    """All that `space` offers for `problem`, which IREE's own code isn't part of."""
    for algorithm in candidate_algorithms(problem):
        shape = convolution_shape(problem, algorithm)
        for schedule in space.schedules(shape):
            yield Implementation(algorithm, schedule)


def _tiles_and_parts(
    problem: ConvolutionProblem, dimension: int, output_tile: int | None
) -> Iterator[tuple[int, int]]:
    stride, dilation = problem.strides[dimension], problem.dilations[dimension]
    taps_per_phase = ceil_div(problem.kernel_size[dimension], lcm(stride, dilation) // dilation)
    if taps_per_phase == 1:
        yield (1, 1)
        return
    sizes = range(2, MAX_CHOSEN_OUTPUT_TILE + 1) if output_tile is None else (output_tile,)
    part_sizes = sorted({ceil_div(taps_per_phase, parts) for parts in range(1, MAX_PARTS + 1)} - {1})
    for m, p in product(sizes, part_sizes):
        if output_tile is not None or m + p - 1 <= MAX_CHOSEN_ALPHA:
            yield (m, p)


def _efficient(problem: ConvolutionProblem, dimension: int, output_tile: int | None) -> set[tuple[int, int]]:
    """The tiles and parts of one dimension that no others outdo."""
    taps, stride, dilation = (
        each[dimension] for each in (problem.kernel_size, problem.strides, problem.dilations)
    )
    outputs = ceil_div(problem.output_size[dimension], lcm(stride, dilation) // stride)

    def sizes(m: int, p: int) -> tuple[int, int, int]:
        """Elements of a tile, parts, and products for each pair of channels."""
        along = decompose((taps,), (m,), strides=(stride,), dilations=(dilation,), part_size=(p,))
        return along.point_count, along.view_count, ceil_div(outputs, m) * along.product_count

    known = {pair: sizes(*pair) for pair in _tiles_and_parts(problem, dimension, output_tile)}

    def is_outdone(elements: int, parts: int, products: int) -> bool:
        least = FEWER_PRODUCTS * products
        return any(a <= elements and b <= parts and c <= least for a, b, c in known.values())

    kept = {pair: own for pair, own in known.items() if not is_outdone(*own)}
    *_, without_tiles = sizes(1, 1)
    return {pair for pair, (*_, products) in kept.items() if products < without_tiles} or set(kept)
