"""Predicted errors are what kernels make, and bounds hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from iree.winograd.dialect.algebra.bf16 import bf16_bits, bf16_numbers
from iree.winograd.dialect.algebra.measurement import (
    fused_multiply_add,
    measured_direct_error,
    measured_error,
    measured_tile_error,
)
from iree.winograd.dialect.algebra.numerics import (
    Accumulation,
    amplification,
    error_bound,
    gradient_error_bound,
    predicted_error,
    predicted_gradient_error,
    rounding_error,
)
from iree.winograd.dialect.algebra.points import measured_points
from iree.winograd.dialect.algebra.transforms import apply, as_array, gradient_transforms, transforms
from wide import wide_combinations


def mean_error(m: int, r: int, rank: int, channels: int, block: int | None, **options: object) -> float:
    found = [transforms(m, r)] * rank
    errors = [measured_error(found, channels, block, seed=seed, **options).relative for seed in range(3)]
    return float(np.mean(errors))


@pytest.mark.parametrize("distribution", ["uniform", "normal"])
@pytest.mark.parametrize("block", [None, 16])
@pytest.mark.parametrize(
    ("m", "r", "rank", "channels"),
    [
        (2, 3, 2, 64),
        (4, 3, 2, 128),
        (6, 3, 2, 64),
        (4, 5, 2, 64),
        (3, 3, 2, 64),
        (4, 3, 1, 128),
        (2, 3, 3, 32),
    ],
)
def test_prediction(m: int, r: int, rank: int, channels: int, block: int | None, distribution: str) -> None:
    predicted = predicted_error((m,) * rank, (r,) * rank, channels, reduction_block=block)
    measured = mean_error(m, r, rank, channels, block, distribution=distribution)
    assert predicted / 1.25 <= measured <= predicted * 1.25


@pytest.mark.parametrize("block", [None, 32])
@pytest.mark.parametrize(("m", "r"), [(2, 3), (4, 3), (6, 3), (4, 2), (3, 5)])
def test_prediction_of_gradients_of_filters(m: int, r: int, block: int | None) -> None:
    """Both transforms and the sums over tiles in float32, one rounding after the other."""
    found, tiles, samples = gradient_transforms(m, r), 128, 400
    generator = np.random.default_rng(0)
    images = generator.standard_normal((tiles, samples, found.alpha))
    gradients = generator.standard_normal((tiles, samples, m))

    def taps(dtype: type, sum_block: int | None, fma: Callable) -> np.ndarray:
        left = apply(found.input, images.astype(np.float32).astype(dtype), [-1], fma)
        right = apply(found.filter, gradients.astype(np.float32).astype(dtype), [-1], fma)
        total = np.zeros(left.shape[1:], dtype)
        for first in range(0, tiles, sum_block or tiles):
            sums = np.zeros(left.shape[1:], dtype)
            for tile in range(first, first + (sum_block or tiles)):
                sums = fma(left[tile], right[tile], sums)
            total = total + sums
        return apply(found.output, total, [-1], fma)

    exact = taps(np.float64, None, lambda constant, a, b: constant * a + b)
    measured = np.abs(taps(np.float32, block, fused_multiply_add) - exact).mean() / np.abs(exact).mean()
    predicted = predicted_gradient_error((m,), (r,), tiles, tile_block=block)
    assert predicted / 1.25 <= measured <= predicted * 1.25
    bound = gradient_error_bound((m,), (r,), tiles, tile_block=block)
    assert measured * np.abs(exact).mean() < bound * np.abs(images).max() * np.abs(gradients).max()


@pytest.mark.parametrize("block", [None, 144])
def test_prediction_of_direct_convolution(block: int | None) -> None:
    predicted = predicted_error((1, 1), (1, 1), 64, views=9, reduction_block=block)
    measured = np.mean([measured_direct_error((3, 3), 64, block, seed=seed).relative for seed in range(3)])
    assert predicted / 1.25 <= measured <= predicted * 1.25


@pytest.mark.parametrize(
    ("channels", "block"), [(64, 32), (128, 16), *wide_combinations([(256, 32), (512, 16)])]
)
def test_f_4_3_is_about_as_accurate_as_direct(channels: int, block: int) -> None:
    """Direct convolution sums in one go, as torch and IREE do."""
    # With few terms to sum, the transforms' own roundings show.
    limit = {64: 1.35, 128: 1.1}.get(channels, 0.85)
    direct = np.mean([measured_direct_error((3, 3), channels, seed=seed).relative for seed in range(3)])
    assert mean_error(4, 3, 2, channels, block, tiles=24) <= limit * direct


def test_blocks_help_and_their_order_is_counted() -> None:
    one_sum = predicted_error((4, 4), (3, 3), 512)
    blocks = predicted_error((4, 4), (3, 3), 512, reduction_block=32)
    assert blocks < one_sum / 2
    assert predicted_error((4, 4), (3, 3), 512, reduction_block=512) == one_sum
    assert predicted_error((4, 4), (3, 3), 128, views=4) == one_sum


def test_variance_of_a_sum_by_hand() -> None:
    assert Accumulation(3).variance == 1 + 2 + 3
    # Blocks of 2, 2, 1 terms: 1 + 2, 1 + 2, 1 within, then sums of 4 and 5 terms.
    assert Accumulation(5, 2).variance == 3 + 3 + 1 + 4 + 5
    assert Accumulation(5, 2).blocks == [2, 2, 1]
    assert Accumulation(5, 2).depth == 4


def test_coarser_types_scale_the_prediction() -> None:
    single = predicted_error((4, 4), (3, 3), 64)
    assert predicted_error((4, 4), (3, 3), 64, data_type="bfloat16") == pytest.approx(2**16 * single)


@pytest.mark.parametrize(("m", "r"), [(1, 1), (2, 3), (4, 3), (6, 3), (4, 5)])
@pytest.mark.parametrize("block", [None, 8])
def test_bound_holds_for_the_worst_signs(m: int, r: int, block: int | None) -> None:
    """Data of one magnitude whose signs maximize an output's terms, and random data."""
    channels = 32
    found = transforms(m, r)
    bound = error_bound((m, m), (r, r), channels, reduction_block=block)
    generator = np.random.default_rng(0)
    signs = np.sign(as_array(found.algorithm.input)[0]) + (as_array(found.algorithm.input)[0] == 0)
    aligned = np.broadcast_to(np.outer(signs, signs), (channels, 8, found.alpha, found.alpha))
    jitter = generator.uniform(0.9, 1, aligned.shape)
    for data in (aligned * jitter, generator.uniform(-1, 1, aligned.shape)):
        data = data.astype(np.float32)
        filters = generator.uniform(0.9, 1, (channels, r, r)).astype(np.float32)
        error = layer_error(found, data, filters, block)
        assert 0 < error <= bound


def layer_error(found: object, data: np.ndarray, filters: np.ndarray, block: int | None) -> float:
    both = [found, found]
    weights = apply(as_array(found.algorithm.filter), filters.astype(np.float64), (1, 2)).astype(np.float32)
    tiles = apply([one.input for one in both], data, (2, 3), fused_multiply_add)
    total = np.zeros(tiles.shape[1:], np.float32)
    first = 0
    for size in Accumulation(len(data), block).blocks:
        part = np.zeros_like(total)
        for channel in range(first, first + size):
            part = fused_multiply_add(weights[channel], tiles[channel], part)
        total = total + part
        first += size
    actual = apply([one.output for one in both], total, (1, 2), fused_multiply_add)
    windows = np.lib.stride_tricks.sliding_window_view(data.astype(np.float64), filters.shape[1:], (2, 3))
    exact = np.einsum("ctijab,cab->tij", windows, filters.astype(np.float64))
    return float(np.abs(actual - exact).max())


def test_amplification_of_direct_and_growing_tiles() -> None:
    assert amplification(transforms(1, 1)) == 1
    growth = [amplification(transforms(m, 3)) for m in range(1, 9)]
    assert growth == sorted(growth)


@pytest.mark.parametrize("alpha", range(4, 9))
def test_recorded_errors_are_reproduced(alpha: int) -> None:
    found = transforms(alpha - 2, 3)
    recorded = measured_points()[alpha].errors
    assert measured_tile_error([found], trials=4000) == pytest.approx(recorded.one_dimensional, rel=0.1)
    assert measured_tile_error([found] * 2, trials=4000) == pytest.approx(recorded.two_dimensional, rel=0.1)


def test_measured_error_sees_a_wrong_transform() -> None:
    found = transforms(4, 3)
    operations = list(found.output.operations)
    index = next(i for i, operation in enumerate(operations) if operation.kind == "subtract")
    operations[index] = replace(operations[index], kind="add")
    wrong = replace(found, output=replace(found.output, operations=tuple(operations)))
    assert measured_error([found], 4).relative < 1e-5
    assert measured_error([wrong], 4).relative > 0.1


@pytest.mark.parametrize(
    ("message", "arguments", "options"),
    [
        ("same rank", ((4, 4), (3,), 8), {}),
        ("terms = 0", ((4,), (3,), 0), {}),
        ("block = 0", ((4,), (3,), 8), {"reduction_block": 0}),
        ("unknown data type 'int8'", ((4,), (3,), 8), {"data_type": "int8"}),
        ("m = 0", ((0,), (3,), 8), {}),
    ],
)
@pytest.mark.parametrize("function", [predicted_error, error_bound])
def test_bad_input_is_named(function: object, message: str, arguments: tuple, options: dict) -> None:
    with pytest.raises(ValueError, match=message):
        function(*arguments, **options)


HALVES = [
    {"operand_type": "bfloat16"},
    {"operand_type": "float16"},
    {"filter_type": "float16"},
    {"filter_type": "bfloat16", "result_type": "bfloat16"},
    {"operand_type": "float16", "filter_type": "bfloat16"},
    {"operand_type": "float16", "result_type": "bfloat16"},
    {"operand_type": "float16", "result_type": "float16"},
    {"result_type": "float16"},
]


@pytest.mark.parametrize("types", HALVES, ids=lambda types: "-".join(types) + "-" + "-".join(types.values()))
@pytest.mark.parametrize(("m", "r"), [(1, 1), (1, 3), (2, 3), (3, 3), (4, 3), (6, 3), (2, 5)])
def test_types_of_operands_filters_and_results_are_predicted(m: int, r: int, types: dict[str, str]) -> None:
    predicted = predicted_error((m, m), (r, r), 24, reduction_block=16, **types)
    measured = mean_error(m, r, 2, 24, 16, tiles=800 // m**2, distribution="normal", **types)
    assert predicted / 1.25 <= measured <= predicted * 1.25


@pytest.mark.parametrize("channels", [64, 576])
def test_the_rest_that_two_parts_of_f16_leave_out_is_predicted(channels: int) -> None:
    """AMX sums 32 channels by themselves, and adds them to the others, for each product of two parts."""
    generator, tile, products = np.random.default_rng(0), 32, ((1, 0), (0, 0), (0, 1))

    def parts() -> list[np.ndarray]:
        numbers = generator.standard_normal((channels, 2000)).astype(np.float16).astype(np.float32)
        upper = bf16_numbers(bf16_bits(numbers))
        return [upper, numbers - upper]

    images, filters = parts(), parts()
    total = np.zeros(images[0].shape[1:], np.float32)
    for first in range(0, channels, tile):
        for image, filter_ in products:
            of_tile = np.zeros_like(total)
            for channel in range(first, first + tile):
                of_tile = fused_multiply_add(filters[filter_][channel], images[image][channel], of_tile)
            total = total + of_tile
    exact = (sum(images).astype(np.float64) * sum(filters)).sum(axis=0)
    measured = np.abs(total - exact).mean() / np.abs(exact).mean()
    block = tile // len(products)
    predicted = predicted_error((1,), (1,), channels, reduction_block=block, left_out_type="bfloat16")
    assert predicted / 1.25 <= measured <= predicted * 1.25


def test_the_error_of_a_rounding() -> None:
    assert predicted_error((1,), (1,), 1, result_type="bfloat16") == pytest.approx(rounding_error("bfloat16"))
    with pytest.raises(ValueError, match="unknown data type 'f8'"):
        rounding_error("f8")
