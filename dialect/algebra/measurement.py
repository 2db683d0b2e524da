"""Measured rounding errors: kernels simulated in float32, step by step, against float64.

`python -m iree.winograd.dialect.algebra.measurement` prints the table of measured layers in
docs/measurements/transforms.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from iree.winograd.dialect.algebra.numerics import UNIT_ROUNDOFF, Accumulation, predicted_error
from iree.winograd.dialect.algebra.transforms import Array, Transforms, apply, as_array, transforms

Distribution = Literal["uniform", "normal"]


@dataclass(frozen=True)
class MeasuredError:
    """Errors against float64: |error|_1 / |exact|_1 and max |error| / max |exact|."""

    relative: float
    maximum: float


def fused_multiply_add(constant: Any, a: Any, b: Any) -> Any:
    """`constant * a + b` of float32 arrays with one rounding (a second, in float64, is 2^-29 of it)."""
    return np.add(np.multiply(constant, a, dtype=np.float64), b, dtype=np.float64).astype(np.float32)


def measured_error(
    found: Sequence[Transforms],
    channels: int,
    reduction_block: int | None = None,
    *,
    tiles: int = 64,
    distribution: Distribution = "uniform",
    seed: int = 0,
    operand_type: str | None = None,
    filter_type: str | None = None,
    result_type: str | None = None,
) -> MeasuredError:
    """The error of `tiles` tiles of a layer, transforms nested one per dimension, as a kernel computes it.

    The filter is transformed in float64 and rounded once; recipes and the sum over channels run in
    float32 with fused multiply-adds. Data is uniform in (-1, 1) or standard normal. Types are as of
    `predicted_error`.
    """
    rank = len(found)
    generator = np.random.default_rng(seed)
    shape = [one.alpha for one in found]
    data = _random(generator, distribution, (channels, tiles, *shape))
    filters = _random(generator, distribution, (channels, 1, *(one.r for one in found)))
    axes = range(2, 2 + rank)
    transformed_filter = _rounded(
        _apply_matrices(found, "filter", filters, axes).astype(np.float32), filter_type or operand_type
    )
    transformed_data = _rounded(
        apply([one.input for one in found], data, axes, fused_multiply_add), operand_type
    )
    total: Array | None = None
    channel = 0
    for block in Accumulation(channels, reduction_block).blocks:
        block_sum = np.zeros((tiles, *shape), np.float32)
        for index in range(channel, channel + block):
            block_sum = fused_multiply_add(transformed_filter[index], transformed_data[index], block_sum)
        total = block_sum if total is None else total + block_sum
        channel += block
    assert total is not None
    actual = apply([one.output for one in found], total, range(1, 1 + rank), fused_multiply_add)
    return _compared(_rounded(actual, result_type), _exact(data, filters, rank))


def measured_direct_error(
    r: Sequence[int],
    channels: int,
    reduction_block: int | None = None,
    *,
    outputs: int = 4096,
    distribution: Distribution = "uniform",
    seed: int = 0,
) -> MeasuredError:
    """The error of a direct convolution of `r` taps per dimension: one sum over taps and channels."""
    generator = np.random.default_rng(seed)
    terms = channels * int(np.prod(r))
    data = _random(generator, distribution, (terms, outputs))
    filters = _random(generator, distribution, (terms, 1))
    total = np.zeros(outputs, np.float32)
    term = 0
    for block in Accumulation(terms, reduction_block).blocks:
        block_sum = np.zeros(outputs, np.float32)
        for index in range(term, term + block):
            block_sum = fused_multiply_add(filters[index], data[index], block_sum)
        total = total + block_sum
        term += block
    return _compared(total, (data.astype(np.float64) * filters.astype(np.float64)).sum(axis=0))


def measured_tile_error(found: Sequence[Transforms], *, trials: int = 10_000, seed: int = 0) -> float:
    """The error of one tile of one channel, measured as by Mazaheri et al., EuroSys'20, section 4.1.

    All three transforms run their recipes in float32 on data uniform in (-1, 1); the error is relative in
    the matrix 1-norm (the largest column sum), the median over the trials.
    """
    rank = len(found)
    generator = np.random.default_rng(seed)
    data = _random(generator, "uniform", (1, trials, *(one.alpha for one in found)))
    filters = _random(generator, "uniform", (1, trials, *(one.r for one in found)))
    axes = range(2, 2 + rank)
    products = apply([one.filter for one in found], filters, axes, fused_multiply_add)
    products = products * apply([one.input for one in found], data, axes, fused_multiply_add)
    actual = apply([one.output for one in found], products, axes, fused_multiply_add)[0]
    exact = _exact(data, filters, rank)
    errors = np.abs(actual - exact).sum(axis=1) / 1.0
    norms = np.abs(exact).sum(axis=1)
    if rank > 1:
        errors, norms = (sums.reshape(trials, -1).max(axis=1) for sums in (errors, norms))
    return float(np.median(errors / norms))


def _apply_matrices(found: Sequence[Transforms], name: str, array: Array, axes: Sequence[int]) -> Array:
    return apply([as_array(getattr(one.algorithm, name)) for one in found], array.astype(np.float64), axes)


def _rounded(array: Array, type_: str | None) -> Array:
    """Rounded to the digits of a type, without its limits of exponents."""
    if type_ is None:
        return array
    digits = int(-np.log2(UNIT_ROUNDOFF[type_]))
    fraction, exponent = np.frexp(array)
    rounded: Array = np.ldexp(np.rint(np.ldexp(fraction, digits)), exponent - digits)
    return rounded


def _random(generator: np.random.Generator, distribution: Distribution, shape: Sequence[int]) -> Array:
    if distribution == "uniform":
        return generator.uniform(-1, 1, shape).astype(np.float32)
    return generator.standard_normal(shape).astype(np.float32)


def _exact(data: Array, filters: Array, rank: int) -> npt.NDArray[np.float64]:
    """The convolution of channels x tiles x alpha... with channels x (1 or tiles) x r..., over channels."""
    taps = filters.shape[2:]
    windows = np.lib.stride_tricks.sliding_window_view(
        data.astype(np.float64), taps, axis=tuple(range(2, 2 + rank))
    )
    letters = "wxyz"[:rank]
    positions = "ijk"[:rank]
    subscripts = f"ct{positions}{letters},ct{letters}->t{positions}"
    weights = np.broadcast_to(filters, (*data.shape[:2], *taps)).astype(np.float64)
    return np.asarray(np.einsum(subscripts, windows, weights, optimize=True))


def _compared(actual: Array, exact: npt.NDArray[np.float64]) -> MeasuredError:
    error = np.abs(actual.astype(np.float64) - exact)
    return MeasuredError(float(error.sum() / np.abs(exact).sum()), float(error.max() / np.abs(exact).max()))


def layer_table(
    channels: Sequence[int] = (64, 128, 256, 512), blocks: Sequence[int] = (16, 32, 64), seeds: int = 4
) -> str:
    """Measured errors of 2-D layers, also relative to the direct convolution's and to predicted ones.

    The direct convolution has one sum over taps and channels. Data is uniform for even seeds and normal
    for others.
    """
    lines = [
        "| channels | algorithm | summation | relative | maximum | of direct | of predicted |\n",
        "| --- | --- | --- | --- | --- | --- | --- |\n",
    ]
    for r, tiles in ((3, (2, 4, 6)), (5, (2, 4))):
        for count in channels:
            direct = _mean([measured_direct_error((r, r), count, **_data(seed)) for seed in range(seeds)])
            expected = predicted_error((1, 1), (1, 1), count, views=r * r)
            lines.append(_layer_row(count, f"direct {r}x{r}", None, direct, direct, expected))
            for m in tiles:
                for block in blocks:
                    both = [transforms(m, r)] * 2
                    error = _mean(
                        [measured_error(both, count, block, tiles=24, **_data(seed)) for seed in range(seeds)]
                    )
                    expected = predicted_error((m, m), (r, r), count, reduction_block=block)
                    lines.append(_layer_row(count, f"F({m}, {r})", block, error, direct, expected))
    return "".join(lines)


def _layer_row(
    channels: int,
    algorithm: str,
    block: int | None,
    error: MeasuredError,
    direct: MeasuredError,
    expected: float,
) -> str:
    order = "one sum" if block is None else f"blocks of {block}"
    return (
        f"| {channels} | {algorithm} | {order} | {error.relative:.2e} | {error.maximum:.2e} "
        f"| {error.relative / direct.relative:.2f} | {error.relative / expected:.2f} |\n"
    )


def _data(seed: int) -> dict[str, Any]:
    return {"distribution": "normal" if seed % 2 else "uniform", "seed": seed}


def _mean(errors: Sequence[MeasuredError]) -> MeasuredError:
    return MeasuredError(
        float(np.mean([error.relative for error in errors])),
        float(np.mean([error.maximum for error in errors])),
    )


if __name__ == "__main__":
    print(layer_table(), end="")
