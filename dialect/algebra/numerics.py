"""The rounding error of a Winograd layer: what to expect, and what it can't exceed.

Both follow a kernel step by step: the input transform's recipe per dimension, a filter transformed in
float64 and rounded once, or by its recipe where it is known only at run time, a sum over channels in blocks
(one fused multiply-add after the other in a block, then one addition per block), and the output transform's
recipe per dimension. The model of the expected error takes data and filters independent with zero mean and
roundings independent of each other, so that variances add; it is exact in how values of the transforms
correlate. The bound is componentwise (Higham, Accuracy and Stability of Numerical Algorithms, section 3;
Barabasz et al., Error analysis and improving the accuracy of Winograd convolution, 2018).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import hypot, prod
from typing import Any

import numpy as np
import numpy.typing as npt
from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.algebra.recipe import Recipe
from iree.winograd.dialect.algebra.transforms import Transforms, as_array, gradient_transforms, transforms

Vector = npt.NDArray[np.float64]

UNIT_ROUNDOFF = {
    "float64": 2.0**-53,
    "float32": 2.0**-24,
    "tf32": 2.0**-11,
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
}
"""The largest relative error of one rounding to nearest, per type of the arithmetic."""

LONGEST_RUNNING_SUM = 4608
"""Products, those of 3x3 taps of 512 channels, up to which kernels add them one after the other."""
SUM_BLOCK = 1024
"""Products of a block, about, of a longer sum."""
FRAME_SUM_BLOCK = 128
"""The same of the sum of a frame of a signal."""

_RMS_ROUNDING = 0.392
"""Root mean square of one rounding, in unit roundoffs.

sqrt(ulp^2 / 12), averaged over a logarithmically uniform mantissa, as products and sums have."""

_TRUNCATION = 0.5
"""What a sum of matrix units lacks on average after each of their additions, in unit roundoffs.

Half an ulp would be 0.72. Errors of sums of 64 to 1100 products on an H200 are those of 0.5, beside what
they have in common."""
_COMMON_STEP, _COMMON_FIRST = 0.2765, 0.36
"""What all sums of n such additions lack in common, in unit roundoffs: the step n times, and the first.

Of emulated units that cut products off two bits below the last of the largest addend (Fasi et al., Numerical
behavior of NVIDIA tensor cores, PeerJ Computer Science 2021), within 2% for 2 to 69 additions. Their errors
of 512 and 1100 products are 6.3e-7 and 1.32e-6, those of an H200 6.3e-7 and 1.36e-6; with one bit 4.7e-7 and
9.3e-7, with three 7.2e-7 and 1.52e-6."""
_MATRIX_TERMS = 16
"""Products that a matrix unit adds to a sum at once."""
_PRODUCT_VARIANCES = {0: 0.0, 3: 7.4, 1: 2.0 * 2**26}
"""Of a product on matrix units, in roundings of a number of 24 bits, by the products of float16 that it is.

Three are of numbers that are split into two of 11 bits: the low parts are rounded, for 2.5 of either factor,
and their product is left out, for 2.4. One is of two numbers that are rounded to 11 bits."""


def summed_block(terms: int, *, of_frames: bool = False) -> int | None:
    """The block of a sum of so many products by kernels that have none of their own; None for one sum.

    Fourier transforms are sums of frames of a signal, some of which nearly cancel: theirs are shorter.
    """
    if of_frames and terms >= 2 * FRAME_SUM_BLOCK:
        return FRAME_SUM_BLOCK
    return SUM_BLOCK if terms > LONGEST_RUNNING_SUM else None


def parts_of_sum(terms: int, most: int) -> int | None:
    """Parts, `most` at most, of as many terms each, that a long sum is the sum of; None where one sum stays.

    They are of about `SUM_BLOCK` terms.
    """
    if terms <= LONGEST_RUNNING_SUM:
        return None
    divisors = (parts for parts in range(2, min(most, terms) + 1) if terms % parts == 0)
    fitting = (parts for parts in divisors if terms // parts <= LONGEST_RUNNING_SUM)
    return min(fitting, key=lambda parts: abs(terms // parts - SUM_BLOCK), default=None)


@dataclass(frozen=True)
class Accumulation:
    """A sum of `terms` products: in order within blocks of `block`, then the blocks' sums in order.

    With `matrix_products` they are so many products of float16 each on matrix units, three of split numbers
    or one of rounded ones, and blocks are sums in float32, to which 16 at a time are added, and which are
    truncated; these blocks' sums are added rounded to nearest. Of three products only the large one is in
    these sums, unless it is `joined` with the small ones.
    """

    terms: int
    block: int | None = None
    matrix_products: int = 0
    joined: bool = False
    operand_type: str | None = None
    """What both factors of a product are rounded to before, None for neither; products are exact then."""
    filter_type: str | None = None
    """What transformed filters alone are rounded to."""
    exact_products: bool = False
    """Whether the one product is of numbers that rounding doesn't change."""
    left_out_type: str | None = None
    """The type that rounding to leaves a rest of both factors, whose product is left out; None for none."""

    def __post_init__(self) -> None:
        if self.terms < 1:
            raise ValueError(f"a sum needs at least one term, but terms = {self.terms}")
        if self.block is not None and self.block < 1:
            raise ValueError(f"a block of a sum needs at least one term, but block = {self.block}")
        if self.matrix_products not in _PRODUCT_VARIANCES:
            raise ValueError(f"products of float16 are 1 or 3 for each, not {self.matrix_products}")

    @property
    def product_variance(self) -> float:
        """Of a product before it is summed, in roundings of the type of sums, beside that of itself."""
        factors = (self.operand_type, self.filter_type or self.operand_type)
        if self.left_out_type is not None:
            rest = _unit_roundoff(self.left_out_type)
            return (_RMS_ROUNDING * rest**2 / UNIT_ROUNDOFF["float32"]) ** 2
        if factors == (None, None):
            return 0.0 if self.exact_products else _PRODUCT_VARIANCES[self.matrix_products]
        return sum((_unit_roundoff(each) / UNIT_ROUNDOFF["float32"]) ** 2 for each in factors if each)

    @property
    def blocks(self) -> list[int]:
        """The terms in each block."""
        block = min(self.block or self.terms, self.terms)
        whole, rest = divmod(self.terms, block)
        return [block] * whole + [rest] * (rest > 0)

    @property
    def variance(self) -> float:
        """Sum over all roundings of the variance of the rounded value, for terms of variance one.

        Truncated sums lack a part of each sum on the way. Most of that is what all have in common, see
        `bias`, and n (n^2 - 1) / 12 the variance of the rest.
        """
        total = 0.0
        before = 0
        for block in self.blocks:
            steps = self._matrix_steps(block) if self.matrix_products else block
            total += block * (steps + 1) / 2
            if self.matrix_products:
                total += (_TRUNCATION / _RMS_ROUNDING) ** 2 * block * (steps**2 - 1) / 12
            total += before + block if before else 0
            before += block
        return total

    @property
    def bias(self) -> float:
        """What matrix units truncate of all sums alike, relative to them, in unit roundoffs."""
        if not self.matrix_products:
            return 0.0
        lacking = sum(
            block * (_COMMON_STEP * self._matrix_steps(block) + _COMMON_FIRST) for block in self.blocks
        )
        return lacking / self.terms

    @property
    def depth(self) -> int:
        """Roundings that a term can go through."""
        return self.blocks[0] + len(self.blocks) - 1

    def _matrix_steps(self, terms: int) -> int:
        """Additions to a sum of so many products that are truncated.

        Joined products are three for each 16, the small ones before the large one: when the first two are
        added nothing large is there to be truncated.
        """
        steps = ceil_div(terms, _MATRIX_TERMS)
        return 3 * steps - 2 if self.joined else steps


@dataclass(frozen=True)
class _Variances:
    """How errors of one dimension's transforms reach its `m` outputs, per unit of data and filter variance.

    `rounded` weighs an independent error of one unit per product, `trivial` its part from products with an
    untransformed filter tap; `input`, `filter` and `output` hold the sums over the roundings of the recipes.
    An exact output has variance `r`.
    """

    r: int
    rounded: Vector
    trivial: Vector
    input: Vector
    filter: Vector
    output: Vector


def predicted_error(
    m: Sequence[int],
    p: Sequence[int],
    channels: int,
    *,
    views: int = 1,
    data_type: str = "float32",
    reduction_block: int | None = None,
    matrix_products: int = 0,
    joined: bool = False,
    operand_type: str | None = None,
    filter_type: str | None = None,
    result_type: str | None = None,
    exact_filter: bool = True,
    exact_products: bool = False,
    left_out_type: str | None = None,
) -> float:
    """The expected relative error, in the 1-norm, of a layer of tiles F(m, p) with `m` and `p` per dimension.

    `channels` (of a group) times `views` products are summed in blocks of `reduction_block`, all in one
    block by default, or as `Accumulation` says of `matrix_products`, whether they are `joined`, and of what
    transformed operands are rounded to, their `operand_type`, or filters alone, their `filter_type`. Results
    are rounded to `result_type`, if to any. With `exact_products` the operands of one matrix product are of
    half precision as they are. With a `left_out_type` the product of what rounding to it leaves of both
    operands is left out. Without an `exact_filter` its transform is rounded after each operation, as
    one that is known only at run time. The largest error of n outputs is about sqrt(pi ln n) times the mean
    error. m = p = (1, ..., 1) with one view per filter tap is the direct convolution.

    Raises ValueError for sizes below one, ranks that differ or an unknown type.
    """
    if len(m) != len(p):
        raise ValueError(f"m = {tuple(m)} and p = {tuple(p)} must have the same rank")
    found = [transforms(tile, part) for tile, part in zip(m, p, strict=True)]
    accumulation = Accumulation(
        channels * views,
        reduction_block,
        matrix_products,
        joined,
        operand_type,
        filter_type,
        exact_products,
        left_out_type,
    )
    error = predicted_error_of(found, accumulation, data_type, exact_filter=exact_filter)
    return error if result_type is None else hypot(error, rounding_error(result_type))


def rounding_error(type_: str) -> float:
    """The expected relative error, in the 1-norm, of numbers rounded to a type. Raises ValueError."""
    return _RMS_ROUNDING * _unit_roundoff(type_)


def predicted_gradient_error(
    m: Sequence[int],
    p: Sequence[int],
    tiles: int,
    *,
    tile_block: int | None = None,
    matrix_products: int = 0,
    exact_products: bool = False,
) -> float:
    """`predicted_error` of the gradient of a filter by F(m, p) in float32: of products summed over `tiles`.

    They are summed in blocks of `tile_block`, all in one block by default, or as `Accumulation` says of
    `matrix_products` and `exact_products`. The gradients of outputs, which are the filter of this algorithm,
    are transformed in float32 as well.

    Raises ValueError for sizes below one and ranks that differ.
    """
    if len(m) != len(p):
        raise ValueError(f"m = {tuple(m)} and p = {tuple(p)} must have the same rank")
    found = [gradient_transforms(tile, part) for tile, part in zip(m, p, strict=True)]
    accumulation = Accumulation(tiles, tile_block, matrix_products, exact_products=exact_products)
    return predicted_error_of(found, accumulation, exact_filter=False)


def predicted_error_of(
    found: Sequence[Transforms],
    accumulation: Accumulation,
    data_type: str = "float32",
    *,
    exact_filter: bool = True,
) -> float:
    """`predicted_error` for given transforms, one per dimension.

    With an `exact_filter` its transform is rounded once, else by each of its operations, too.
    """
    return float(np.mean(predicted_errors_of(found, accumulation, data_type, exact_filter=exact_filter)))


def predicted_errors_of(
    found: Sequence[Transforms],
    accumulation: Accumulation,
    data_type: str = "float32",
    *,
    exact_filter: bool = True,
) -> Vector:
    """The expected relative error of each output of a tile (m per dimension), see `predicted_error_of`."""
    roundoff = _unit_roundoff(data_type)
    dimensions = [_variances(one) for one in found]
    terms = accumulation.terms
    products = 1 + accumulation.product_variance
    variance = _outer([one.rounded for one in dimensions]) * (accumulation.variance / terms + products)
    variance -= _outer([one.trivial for one in dimensions])
    for index, dimension in enumerate(dimensions):
        before, after = dimensions[:index], dimensions[index + 1 :]
        exact = [np.full(len(one.rounded), float(one.r)) for one in dimensions]
        # Later passes of the input transform mix an error as they do the data; earlier ones have been through
        # cancellation already. For the output transform it is the other way round.
        variance += _outer([*(one.rounded for one in before), dimension.input, *exact[index + 1 :]])
        if not exact_filter:
            variance += _outer([*(one.rounded for one in before), dimension.filter, *exact[index + 1 :]])
        variance += _outer([*exact[:index], dimension.output, *(one.rounded for one in after)])
    signal = prod(one.r for one in dimensions)
    # A factor that all sums have in common is one of the outputs: transforms don't amplify it.
    errors: Vector = roundoff * np.hypot(_RMS_ROUNDING * np.sqrt(variance / signal), accumulation.bias)
    return errors


def error_bound(
    m: Sequence[int],
    p: Sequence[int],
    channels: int,
    *,
    views: int = 1,
    data_type: str = "float32",
    reduction_block: int | None = None,
    exact_filter: bool = True,
) -> float:
    """A bound on the absolute error of every output, per unit of max|input| and of max|filter|.

    Holds for any data, without overflow and underflow, and with or without fused multiply-adds. Arguments
    and errors are those of `predicted_error`.
    """
    if len(m) != len(p):
        raise ValueError(f"m = {tuple(m)} and p = {tuple(p)} must have the same rank")
    found = [transforms(tile, part) for tile, part in zip(m, p, strict=True)]
    accumulation = Accumulation(channels * views, reduction_block)
    return _error_bound(found, accumulation, _unit_roundoff(data_type), exact_filter=exact_filter)


def gradient_error_bound(
    m: Sequence[int], p: Sequence[int], tiles: int, *, tile_block: int | None = None
) -> float:
    """A bound on the absolute error of every tap's gradient, per unit of max|input| and of max|gradient|.

    Holds as `error_bound` does, in float32. Arguments and errors are those of `predicted_gradient_error`.
    """
    if len(m) != len(p):
        raise ValueError(f"m = {tuple(m)} and p = {tuple(p)} must have the same rank")
    found = [gradient_transforms(tile, part) for tile, part in zip(m, p, strict=True)]
    roundoff = _unit_roundoff("float32")
    return _error_bound(found, Accumulation(tiles, tile_block), roundoff, exact_filter=False)


def _error_bound(
    found: Sequence[Transforms], accumulation: Accumulation, roundoff: float, *, exact_filter: bool
) -> float:
    # One rounding of the filter, and of each product where there is no fused multiply-add.
    roundings = 2 + accumulation.depth
    magnitude = float(accumulation.terms)
    for one in found:
        # Per operation: its constant, its product and its sum.
        roundings += 3 * (one.input.depth + one.output.depth + (0 if exact_filter else one.filter.depth))
        inputs = _absolute(one.input) @ np.ones(one.alpha)
        exact = np.abs(as_array(one.algorithm.filter))
        filters = (exact if exact_filter else _absolute(one.filter)) @ np.ones(one.r)
        magnitude *= float(np.max(_absolute(one.output) @ (filters * inputs)))
    return roundings * roundoff / (1 - roundings * roundoff) * magnitude


def amplification(found: Transforms) -> float:
    """Growth of an error per product to the outputs, relative to them: what the points decide.

    The mean over outputs of sqrt(sum_i A_i^2 |G_i|^2 |B_i|^2 / r); 1 for a direct convolution. Nested
    transforms multiply theirs.
    """
    variances = _variances(found)
    return float(np.mean(np.sqrt(variances.rounded / found.r)))


@cache
def _variances(found: Transforms) -> _Variances:
    output = as_array(found.algorithm.output)
    filters = as_array(found.algorithm.filter)
    inputs = as_array(found.algorithm.input)
    filter_covariance = filters @ filters.T
    products = filter_covariance * (inputs @ inputs.T)
    weights = output**2 * np.diag(products)
    trivial = [
        sum(entry != 0 for entry in row) == 1 and _is_power_of_two(max(map(abs, row)))
        for row in found.algorithm.filter
    ]
    input_errors = _operand_errors(found.input, output, filter_covariance)
    filter_errors = _operand_errors(found.filter, output, inputs @ inputs.T)
    rows, sensitivities = _linearized(found.output)
    output_errors = _rounded_variances(found.output, rows, products) @ sensitivities**2
    return _Variances(
        found.r,
        weights.sum(axis=1),
        weights[:, trivial].sum(axis=1),
        input_errors,
        filter_errors,
        np.zeros(found.m) + output_errors,
    )


def _operand_errors(recipe: Recipe, output: Vector, other_covariance: Vector) -> Vector:
    """How the roundings of one operand's transform reach the outputs, by way of products with the other's."""
    errors = np.zeros(len(output))
    rows, sensitivities = _linearized(recipe)
    for variance, sensitivity in zip(
        _rounded_variances(recipe, rows, np.eye(recipe.inputs)), sensitivities, strict=True
    ):
        through = output * sensitivity
        errors += variance * np.einsum("oi,ij,oj->o", through, other_covariance, through)
    return errors


def _rounded_variances(recipe: Recipe, rows: Vector, covariance: Vector) -> Vector:
    """Per operation, the variance of its value and what the rounding of its constant adds, in roundings."""
    variances: Vector = np.einsum("ki,ij,kj->k", rows, covariance, rows)
    rounded: Vector = variances[recipe.inputs :].copy()
    for index, operation in enumerate(recipe.operations):
        if operation.constant is None:
            continue
        exact = float(operation.constant)
        # Float32's rounding of the constant stands for that of other types, scaled.
        error = abs(float(np.float32(exact)) - exact) / UNIT_ROUNDOFF["float32"]
        rounded[index] += variances[operation.a] * (error / _RMS_ROUNDING) ** 2
    return rounded


def _linearized(recipe: Recipe) -> tuple[Vector, Vector]:
    """Every value as a combination of the inputs, and the outputs' derivatives by every operation's value."""
    rows = np.zeros((recipe.values, recipe.inputs))
    rows[: recipe.inputs] = np.eye(recipe.inputs)
    derivatives = np.zeros((recipe.values, len(recipe.outputs)))
    for index, value in enumerate(recipe.outputs):
        if value is not None:
            derivatives[value, index] = 1
    for index, operation in enumerate(recipe.operations):
        rows[recipe.inputs + index] = sum(
            float(factor) * rows[operand] for operand, factor in operation.factors
        )
    for index in reversed(range(len(recipe.operations))):
        for operand, factor in recipe.operations[index].factors:
            derivatives[operand] += float(factor) * derivatives[recipe.inputs + index]
    return rows, derivatives[recipe.inputs :]


def _absolute(recipe: Recipe) -> Vector:
    """The recipe's matrix with every operation adding magnitudes: what its roundings are relative to."""
    rows = np.zeros((recipe.values, recipe.inputs))
    rows[: recipe.inputs] = np.eye(recipe.inputs)
    for index, operation in enumerate(recipe.operations):
        rows[recipe.inputs + index] = sum(
            abs(float(factor)) * rows[operand] for operand, factor in operation.factors
        )
    zero = np.zeros(recipe.inputs)
    return np.array([zero if value is None else rows[value] for value in recipe.outputs])


def _outer(vectors: Sequence[Vector]) -> Any:
    result: Any = 1.0
    for vector in vectors:
        result = np.multiply.outer(result, vector)
    return result


def _is_power_of_two(value: Fraction) -> bool:
    return all(part & (part - 1) == 0 for part in (value.numerator, value.denominator))


def _unit_roundoff(data_type: str) -> float:
    if data_type not in UNIT_ROUNDOFF:
        raise ValueError(f"unknown data type '{data_type}': it is one of {', '.join(UNIT_ROUNDOFF)}")
    return UNIT_ROUNDOFF[data_type]
