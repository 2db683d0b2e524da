"""Convolutions in loops and branches, which share a filter with each other and with what is outside."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from agreement import expect_within
from iree.winograd import compile, load
from iree.winograd.dialect.algebra.numerics import error_bound
from iree.winograd.dialect.reference import convolution
from iree.winograd.loading.runtime import LoadedProgram

Array = npt.NDArray[np.float64]

# Nothing cancels, so that results are far above the bounds of their errors.
pytestmark = pytest.mark.xdist_group("control flow")

FILTER = np.random.default_rng(7).uniform(0, 0.05, (3, 3, 4, 4)).astype(np.float32)

PROGRAM = f"""
func.func private @convolve(%image: tensor<1x12x12x4xf32>) -> tensor<1x12x12x4xf32> {{
  %zero = arith.constant 0.0 : f32
  %filter = arith.constant dense<{FILTER.tolist()}> : tensor<3x3x4x4xf32>
  %padded = tensor.pad %image low[0, 1, 1, 0] high[0, 1, 1, 0] {{
  ^bb0(%n: index, %h: index, %w: index, %c: index):
    tensor.yield %zero : f32
  }} : tensor<1x12x12x4xf32> to tensor<1x14x14x4xf32>
  %empty = tensor.empty() : tensor<1x12x12x4xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x12x12x4xf32>) -> tensor<1x12x12x4xf32>
  %sums = linalg.conv_2d_nhwc_hwcf ins(%padded, %filter : tensor<1x14x14x4xf32>, tensor<3x3x4x4xf32>)
    outs(%init : tensor<1x12x12x4xf32>) -> tensor<1x12x12x4xf32>
  return %sums : tensor<1x12x12x4xf32>
}}

func.func @repeated(%image: tensor<1x12x12x4xf32>, %count: tensor<i64>) -> tensor<1x12x12x4xf32> {{
  %first = arith.constant 0 : index
  %step = arith.constant 1 : index
  %number = tensor.extract %count[] : tensor<i64>
  %last = arith.index_cast %number : i64 to index
  %result = scf.for %i = %first to %last step %step iter_args(%x = %image) -> tensor<1x12x12x4xf32> {{
    %sums = func.call @convolve(%x) : (tensor<1x12x12x4xf32>) -> tensor<1x12x12x4xf32>
    %residual = arith.addf %sums, %image : tensor<1x12x12x4xf32>
    scf.yield %residual : tensor<1x12x12x4xf32>
  }}
  return %result : tensor<1x12x12x4xf32>
}}

func.func @accumulated(%image: tensor<1x12x12x4xf32>, %count: tensor<i64>) -> tensor<1x12x12x4xf32> {{
  %first = arith.constant 0 : index
  %step = arith.constant 1 : index
  %number = tensor.extract %count[] : tensor<i64>
  %last = arith.index_cast %number : i64 to index
  %sums = func.call @convolve(%image) : (tensor<1x12x12x4xf32>) -> tensor<1x12x12x4xf32>
  %result = scf.for %i = %first to %last step %step iter_args(%x = %image) -> tensor<1x12x12x4xf32> {{
    %more = arith.addf %sums, %x : tensor<1x12x12x4xf32>
    scf.yield %more : tensor<1x12x12x4xf32>
  }}
  return %result : tensor<1x12x12x4xf32>
}}

func.func @branched(%image: tensor<1x12x12x4xf32>, %count: tensor<i64>) -> tensor<1x12x12x4xf32> {{
  %zero = arith.constant 0 : i64
  %number = tensor.extract %count[] : tensor<i64>
  %once = func.call @convolve(%image) : (tensor<1x12x12x4xf32>) -> tensor<1x12x12x4xf32>
  %condition = arith.cmpi ne, %number, %zero : i64
  %result = scf.if %condition -> tensor<1x12x12x4xf32> {{
    %twice = func.call @convolve(%once) : (tensor<1x12x12x4xf32>) -> tensor<1x12x12x4xf32>
    scf.yield %twice : tensor<1x12x12x4xf32>
  }} else {{
    %negated = arith.negf %once : tensor<1x12x12x4xf32>
    scf.yield %negated : tensor<1x12x12x4xf32>
  }}
  return %result : tensor<1x12x12x4xf32>
}}
"""


def convolve(image: Array) -> Array:
    return convolution(image, FILTER, padding_low=(1, 1), padding_high=(1, 1))


def repeated(image: Array, count: int) -> Array:
    result = image
    for _ in range(count):
        result = convolve(result) + image
    return result


def accumulated(image: Array, count: int) -> Array:
    return image + count * convolve(image)


def branched(image: Array, count: int) -> Array:
    return convolve(convolve(image)) if count else -convolve(image)


@pytest.fixture(scope="module", params=["F(4, 3)", "direct"])
def program(request: pytest.FixtureRequest) -> LoadedProgram:
    output_tile = 4 if request.param == "F(4, 3)" else 1
    return load(compile(PROGRAM, output_tile=output_tile, threads=1, strict=True))


@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize("reference", [repeated, accumulated, branched])
def test_control_flow_decides_what_is_convolved(
    program: LoadedProgram, reference: Callable[[Array, int], Array], count: int
) -> None:
    image = np.random.default_rng(count).uniform(0, 1, (1, 12, 12, 4)).astype(np.float32)
    actual = getattr(program, reference.__name__)(image, np.array(count))
    exact = reference(image.astype(np.float64), count)
    # A convolution amplifies what it reads by no more than this, its errors as well.
    gain = 1 + np.abs(FILTER).sum(axis=(0, 1, 2)).max()
    steps = max(2, count)
    error = error_bound((4, 4), (3, 3), 4) * np.abs(FILTER).max() * np.abs(image).max()
    bound = steps * gain**steps * error
    assert bound < np.abs(exact).max() / 20
    expect_within(actual, exact, bound)
