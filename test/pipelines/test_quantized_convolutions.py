"""Convolutions of bytes, channels first, which IREE computes channels last."""

from __future__ import annotations

import iree.winograd
import numpy as np
import numpy.typing as npt
import pytest

ZERO_POINTS = (-3, 2)


def program(name: str, zero_points: str, types: str) -> str:
    return f"""
    func.func @main(%x: tensor<1x8x9x7xi8>, %w: tensor<6x8x3x3xi8>) -> tensor<1x6x4x3xi32> {{
      %a = arith.constant {ZERO_POINTS[0]} : i32
      %b = arith.constant {ZERO_POINTS[1]} : i32
      %zero = arith.constant 0 : i32
      %e = tensor.empty() : tensor<1x6x4x3xi32>
      %z = linalg.fill ins(%zero : i32) outs(%e : tensor<1x6x4x3xi32>) -> tensor<1x6x4x3xi32>
      %y = linalg.{name} {{strides = dense<2> : tensor<2xi64>}}
        ins(%x, %w{zero_points} : tensor<1x8x9x7xi8>, tensor<6x8x3x3xi8>{types})
        outs(%z : tensor<1x6x4x3xi32>) -> tensor<1x6x4x3xi32>
      return %y : tensor<1x6x4x3xi32>
    }}"""


def convolution(x: npt.NDArray[np.int32], w: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """With a stride of 2."""
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))[:, :, ::2, ::2]
    return np.einsum("nchwij,fcij->nfhw", windows, w)


@pytest.mark.parametrize("subtracts", [False, True], ids=["as they are", "less zero points"])
def test_sums_are_exact(subtracts: bool) -> None:
    generator = np.random.default_rng(0)
    x = generator.integers(-128, 128, (1, 8, 9, 7), np.int8)
    w = generator.integers(-128, 128, (6, 8, 3, 3), np.int8)
    text = (
        program("conv_2d_nchw_fchw_q", ", %a, %b", ", i32, i32")
        if subtracts
        else program("conv_2d_nchw_fchw", "", "")
    )
    compiled = iree.winograd.compile(text, threads=1)
    zero_points = ZERO_POINTS if subtracts else (0, 0)
    exact = convolution(x.astype(np.int32) - zero_points[0], w.astype(np.int32) - zero_points[1])
    np.testing.assert_array_equal(iree.winograd.load(compiled, threads=1)(x, w), exact)
