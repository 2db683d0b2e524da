"""What an algorithm costs on a convolution, in multiply-adds."""

from __future__ import annotations

from math import prod

from iree.winograd.dialect.algebra.transforms import transforms
from iree.winograd.passes.algorithm import Algorithm
from iree.winograd.passes.convolution import Convolution

# A transformed filter is read from memory once per image batch, however few tiles there are to multiply it
# by. Reading one element of it takes about as long as this many multiply-adds.
FILTER_ELEMENT_COST = 8


def algorithm_cost(convolution: Convolution, algorithm: Algorithm) -> int:
    """Multiply-adds of `algorithm`: products, transforms of input and output, reading the filter.

        A*C*V*K/g * (T + filter element cost) + T * (V*C * input transform + K * output transform)

    in the symbols of docs/architecture.md. Filters are transformed before the program runs and cost nothing.
    A convolution whose batch is known only at run time is counted for a batch of 1.
    """
    decomposition = algorithm.decompose(convolution)
    tiles = (convolution.batch or 1) * prod(decomposition.tiles(convolution.output_size))
    reduction = decomposition.view_count * convolution.input_channels // convolution.groups
    products = decomposition.point_count * reduction * convolution.output_channels
    per_tile = decomposition.view_count * convolution.input_channels * _input_transform_cost(
        algorithm
    ) + convolution.output_channels * _output_transform_cost(algorithm)
    return products * (tiles + FILTER_ELEMENT_COST) + tiles * per_tile


def direct_cost(convolution: Convolution) -> int:
    """Multiply-adds of the convolution's definition, and reading its filter."""
    weights = (
        prod(convolution.kernel_size)
        * convolution.input_channels
        // convolution.groups
        * convolution.output_channels
    )
    return weights * ((convolution.batch or 1) * prod(convolution.output_size) + FILTER_ELEMENT_COST)


def _input_transform_cost(algorithm: Algorithm) -> int:
    """Operations on one tile of one channel: each dimension in turn transforms all lines of the tile."""
    alphas = [m + p - 1 for m, p in zip(algorithm.output_tile, algorithm.part_size, strict=True)]
    return sum(
        len(transforms(m, p).input.operations) * prod(alphas) // alpha
        for m, p, alpha in zip(algorithm.output_tile, algorithm.part_size, alphas, strict=True)
    )


def _output_transform_cost(algorithm: Algorithm) -> int:
    """As `_input_transform_cost`; the dimensions transformed before have shrunk from alpha to m elements."""
    sizes = [m + p - 1 for m, p in zip(algorithm.output_tile, algorithm.part_size, strict=True)]
    cost = 0
    for dimension, (m, p) in enumerate(zip(algorithm.output_tile, algorithm.part_size, strict=True)):
        cost += len(transforms(m, p).output.operations) * prod(sizes) // sizes[dimension]
        sizes[dimension] = m
    return cost
