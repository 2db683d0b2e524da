"""What an algorithm costs on a convolution, by counts of operations and bytes.

The unit is a cycle of a core that starts two vector operations of `LANES` elements in it. Only ratios matter
here; the constants were read off one machine with AVX-512 (docs/passes.md says how) and serve for all.
"""

from __future__ import annotations

from functools import cache
from math import prod

from iree.winograd.dialect.algebra.transforms import transforms
from iree.winograd.passes.algorithm import Algorithm
from iree.winograd.passes.convolution import Convolution

LANES = 16
PRODUCT_EFFICIENCY = 0.92
"""The part of the peak rate that register-blocked products reach."""
LEAST_REGISTER_TILES = 4
"""Rows of a product below which it waits for its own sums, so that fewer take no less time."""
INPUT_OPERATION_CYCLES = 1.5
OUTPUT_OPERATION_CYCLES = 1.2
ELEMENT_CYCLES = 1.2
"""Of reading or writing one vector in a transform: tiles overlap, their elements lie apart."""
FILTER_BYTES_PER_CYCLE = 8.0
"""Filters are read from memory: those of a whole network don't stay in any cache from one run to the next."""
UNHIDDEN = 0.3
"""The part of reading filters, or of multiplying if that is shorter, that doesn't overlap with the other."""


def algorithm_cost(convolution: Convolution, algorithm: Algorithm) -> float:
    """Cycles of `algorithm`: its products, which filters are read along with, and its transforms.

        products = A*V*C*K/g * T / (2 * lanes * efficiency)        filters = 4*A*V*C*K/g / bytes per cycle
        input = T*V*C/lanes * (1.5 * operations + 1.2 * 2*A)
        output = T*K/lanes * (1.2 * operations + A + M)

    in the symbols of docs/architecture.md, with M outputs and the recipes' nested operations per tile. Output
    tile 1 needs no transforms. A batch known only at run time counts as 1; filters are transformed
    beforehand.
    """
    decomposition = algorithm.decompose(convolution)
    tiles = (convolution.batch or 1) * prod(decomposition.tiles(convolution.output_size))
    group_inputs = convolution.input_channels // convolution.groups
    group_outputs = convolution.output_channels // convolution.groups
    reduction = decomposition.view_count * group_inputs
    output_vectors = convolution.groups * _vectors(group_outputs)
    product_rows = decomposition.point_count * max(tiles, LEAST_REGISTER_TILES)
    products = product_rows * reduction * output_vectors / (2 * PRODUCT_EFFICIENCY)
    filter_bytes = 4 * decomposition.point_count * reduction * convolution.output_channels
    filters = filter_bytes / FILTER_BYTES_PER_CYCLE
    cost = max(products, filters) + UNHIDDEN * min(products, filters)
    if algorithm.is_direct:
        return cost
    input_vectors = convolution.groups * decomposition.view_count * _vectors(group_inputs)
    elements, outputs = decomposition.point_count, prod(algorithm.output_tile)
    per_input = INPUT_OPERATION_CYCLES * _input_operations(algorithm) + ELEMENT_CYCLES * 2 * elements
    per_output = OUTPUT_OPERATION_CYCLES * _output_operations(algorithm) + elements + outputs
    return cost + tiles * (input_vectors * per_input + output_vectors * per_output)


def _vectors(channels: int) -> int:
    """Vectors that cover some channels; fewer channels than lanes are covered by narrower ones."""
    width = LANES
    while width > channels:
        width //= 2
    return -(-channels // width)


@cache
def _input_operations(algorithm: Algorithm) -> int:
    """Operations on one tile of one channel: each dimension in turn transforms all lines of the tile."""
    alphas = [m + p - 1 for m, p in zip(algorithm.output_tile, algorithm.part_size, strict=True)]
    return sum(
        len(transforms(m, p).input.operations) * prod(alphas) // alpha
        for m, p, alpha in zip(algorithm.output_tile, algorithm.part_size, alphas, strict=True)
    )


@cache
def _output_operations(algorithm: Algorithm) -> int:
    """As `_input_operations`; the dimensions transformed before have shrunk from alpha to m elements."""
    sizes = [m + p - 1 for m, p in zip(algorithm.output_tile, algorithm.part_size, strict=True)]
    operations = 0
    for dimension, (m, p) in enumerate(zip(algorithm.output_tile, algorithm.part_size, strict=True)):
        operations += len(transforms(m, p).output.operations) * prod(sizes) // sizes[dimension]
        sizes[dimension] = m
    return operations
