"""Choose how each convolution is computed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import lcm

from iree.winograd.dialect.algebra.numerics import predicted_error
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.algorithm import ATTRIBUTE_NAME, Algorithm, set_algorithm
from iree.winograd.passes.convolution import Convolution, convolutions, match_convolution
from iree.winograd.passes.cost_model import algorithm_cost
from iree.winograd.passes.layer_filter import is_layer_allowed
from iree.winograd.passes.options import WinogradOptions
from iree.winograd.passes.registry import register_pass
from iree.winograd.passes.remarks import remark_missed

PASS_NAME = "winograd-select-algorithm"
LARGEST_OUTPUT_TILE = 6
LARGEST_ALPHA = 8
MOST_PARTS = 4
"""Parts that the taps of one dimension and phase of the stride are split into at most."""
MAX_PREDICTED_ERROR = 1e-5
"""Relative error in the 1-norm, predicted, beyond which an algorithm is chosen only when asked for."""
COST_TOLERANCE = 0.03
"""Relative difference in cost that is no difference: the more accurate algorithm is chosen then."""
LEAST_GROUP_CHANNELS = 4
"""Channels of a group below which vectors along channels don't pay."""


@register_pass(PASS_NAME)
@dataclass(frozen=True)
class SelectAlgorithm:
    """Annotate the convolutions to be rewritten with the algorithm that computes them.

    Folding a filter freezes the size of its tiles, so this decision comes before any rewrite. A convolution
    gets the output tile and part size, possibly different per dimension, that cost least by `cost_model.py`
    among those whose predicted error is small; output tile 1 is the direct convolution. One that the kernels
    don't compute, or that the layer patterns exclude, stays as it is, with a remark saying why. An annotation
    that a convolution comes with is kept.

        %r = linalg.conv_2d_nhwc_hwcf ins(%x, %w : ...) outs(%y : ...)
      becomes
        %r = linalg.conv_2d_nhwc_hwcf {winograd.algorithm = {
          output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>}} ins(%x, %w : ...) outs(%y : ...)
    """

    output_tile: int | None = None
    """Outputs per tile and dimension; None chooses per convolution."""
    allow: tuple[str, ...] = ()
    """Layer patterns, as in `WinogradOptions`."""
    deny: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self._options()

    def run(self, module: ir.Operation) -> None:
        for number, operation in enumerate(convolutions(module)):
            if ATTRIBUTE_NAME in operation.attributes:
                continue
            decision = (
                self._select(operation)
                if is_layer_allowed(self._options(), number, operation)
                else "the layer patterns exclude it"
            )
            if isinstance(decision, Algorithm):
                set_algorithm(operation, decision)
            else:
                remark_missed(operation, PASS_NAME, f"convolution {number} left as it is: {decision}")

    def _options(self) -> WinogradOptions:
        return WinogradOptions(output_tile=self.output_tile, allow=self.allow, deny=self.deny)

    def _select(self, operation: ir.Operation) -> Algorithm | str:
        convolution = match_convolution(operation)
        if isinstance(convolution, str):
            return convolution
        if reason := _unsuited(convolution):
            return reason
        costs = {
            candidate: algorithm_cost(convolution, candidate)
            for candidate in _candidates(convolution, self.output_tile)
        }
        by_cost = sorted(costs, key=lambda candidate: costs[candidate])
        accurate = by_cost if self.output_tile is not None else _accurate(convolution, by_cost)
        best = next(iter(accurate))
        return min(
            (candidate for candidate in by_cost if costs[candidate] <= costs[best] * (1 + COST_TOLERANCE)),
            key=lambda candidate: _predicted_error(convolution, candidate),
        )


def _accurate(convolution: Convolution, algorithms: list[Algorithm]) -> Iterator[Algorithm]:
    """Those whose predicted error is small enough; the direct convolution always is."""
    return (
        algorithm
        for algorithm in algorithms
        if algorithm.is_direct or _predicted_error(convolution, algorithm) <= MAX_PREDICTED_ERROR
    )


def _unsuited(convolution: Convolution) -> str | None:
    """Why `convolution` isn't one that the kernels compute."""
    if not isinstance(convolution.element_type, ir.F32Type):
        return f"its element type is {convolution.element_type}, not f32"
    if convolution.groups == 1:
        return None
    group_inputs = convolution.input_channels // convolution.groups
    group_outputs = convolution.output_channels // convolution.groups
    if group_inputs == 1:
        return "it is depthwise"
    if group_outputs < LEAST_GROUP_CHANNELS:
        return f"its groups have only {group_outputs} output channels"
    return None


def _candidates(convolution: Convolution, output_tile: int | None) -> Iterator[Algorithm]:
    """The algorithms to choose from; with an `output_tile`, only those of this size where tiles have a gain.

    A dimension of a single tap, or of one tap per phase of its stride, has none.
    """
    rank = convolution.spatial_rank
    direct = Algorithm((1,) * rank, (1,) * rank)
    if output_tile == 1:
        yield direct
        return
    tiled = [
        Algorithm(tuple(m for m, _ in chosen), tuple(p for _, p in chosen))
        for chosen in product(*(_tiles_and_parts(convolution, d, output_tile) for d in range(rank)))
    ]
    if output_tile is None or tiled == [direct]:
        yield direct
    yield from (algorithm for algorithm in tiled if not algorithm.is_direct)


def _tiles_and_parts(
    convolution: Convolution, dimension: int, output_tile: int | None
) -> Iterator[tuple[int, int]]:
    stride, dilation = convolution.strides[dimension], convolution.dilations[dimension]
    taps_per_phase = -(-convolution.kernel_size[dimension] // (lcm(stride, dilation) // dilation))
    if taps_per_phase == 1:
        yield (1, 1)
        return
    sizes = range(2, LARGEST_OUTPUT_TILE + 1) if output_tile is None else (output_tile,)
    part_sizes = sorted({-(-taps_per_phase // parts) for parts in range(1, MOST_PARTS + 1)} - {1})
    for m, p in product(sizes, part_sizes):
        if output_tile is not None or m + p - 1 <= LARGEST_ALPHA:
            yield (m, p)


def _predicted_error(convolution: Convolution, algorithm: Algorithm) -> float:
    views = algorithm.decompose(convolution).view_count
    group_channels = convolution.input_channels // convolution.groups
    return _cached_error(algorithm.output_tile, algorithm.part_size, group_channels, views)


@cache
def _cached_error(m: tuple[int, ...], p: tuple[int, ...], channels: int, views: int) -> float:
    return predicted_error(m, p, channels, views=views)
