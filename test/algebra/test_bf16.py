"""Bits of bf16 beside those of torch, which rounds to the nearest as well."""

import numpy as np
import pytest
import torch
from iree.winograd.dialect.algebra.bf16 import bf16_bits, bf16_numbers


def test_numbers_of_any_bits_are_rounded_to_the_nearest() -> None:
    # More than are rounded at once.
    bits = np.random.default_rng(0).integers(0, 2**32, 100_000, np.uint32)
    bits[:4] = [0x3F808000, 0x3F818000, 0x7F7FFFFF, 0xFF800000]
    numbers = bits.view(np.float32)
    expected = torch.from_numpy(numbers).bfloat16().float().numpy()
    np.testing.assert_array_equal(bf16_numbers(bf16_bits(numbers)), expected)


@pytest.mark.parametrize(
    "numbers", [1.25, np.ones((2, 3)), np.arange(12.0).reshape(3, 4).T, np.zeros((0, 2))]
)
def test_results_have_the_shape_of_numbers(numbers: object) -> None:
    np.testing.assert_array_equal(bf16_numbers(bf16_bits(numbers)), np.asarray(numbers, np.float32))
