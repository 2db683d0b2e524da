"""Epilogues of the CPU kernels that are more than arithmetic, against float64."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from typing import Any

import iree.winograd
import numpy as np
import numpy.typing as npt
import pytest
from checked_programs import check_together, compile_rewritten
from convolution_program import Program
from wide import sampled, wide

Array = npt.NDArray[Any]

OPERANDS = {
    "n, h, w, k": (2, 7, 9, 40),
    "n, w, h, k": (2, 9, 7, 40),
    "h, w, k": (7, 9, 40),
    "n, h, w": (2, 7, 9),
    "h, k": (7, 40),
    "w, k": (9, 40),
    "n, k": (2, 40),
    "h": (7,),
    "k": (40,),
}

KERNELS = {
    "winograd": Program((14, 13), 5, 20, (3, 3), (4, 4), (3, 3), low=(1, 1), high=(1, 1)),
    "direct": Program((9, 30), 20, 50, (1, 1), (1, 1), (1, 1)),
    "direct, padded": Program(
        (9, 30), 3, 40, (3, 3), (1, 1), (1, 1), strides=(2, 2), low=(1, 1), high=(1, 1)
    ),
    "depthwise": Program((14, 13), 40, 40, (3, 3), (1, 1), (1, 1), low=(1, 1), high=(1, 1), groups=40),
}


@pytest.mark.parametrize("cpu", ["host", *wide(["haswell", "x86-64"])])
def test_activations_agree_with_float64(cpu: str) -> None:
    programs = [
        replace(program, activation=activation)
        for program, activation in product(KERNELS.values(), ["swish", "hard swish"])
    ]
    check_together(programs, flags=[f"--iree-llvmcpu-target-cpu={cpu}"])


EXTREME = np.array([np.inf, -np.inf, np.nan, 0, -0.0, 1e-40, 3e38, -3e38, 89, -110], np.float32)


def after_zeros(operations: str, ordinary: Array, cpu: str) -> tuple[Array, Array]:
    """What an epilogue makes of %biased: `ordinary` numbers and `EXTREME`, to which zeros were added."""
    channels = 64
    values = np.concatenate([ordinary, np.resize(EXTREME, channels)]).reshape(1, -1, channels)
    shape = "x".join(map(str, values.shape))
    source = f"""
    func.func @main(%image: tensor<{shape}xf32>, %bias: tensor<{shape}xf32>) -> tensor<{shape}xf32> {{
      %zero = arith.constant 0.0 : f32
      %filter = arith.constant dense<0.0> : tensor<1x{channels}x{channels}xf32>
      %empty = tensor.empty() : tensor<{shape}xf32>
      %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<{shape}xf32>) -> tensor<{shape}xf32>
      %sums = linalg.conv_1d_nwc_wcf {{winograd.algorithm = {{
          output_tile = array<i64: 1>, part_size = array<i64: 1>}}}}
        ins(%image, %filter : tensor<{shape}xf32>, tensor<1x{channels}x{channels}xf32>)
        outs(%zeros : tensor<{shape}xf32>) -> tensor<{shape}xf32>
      %result = linalg.generic {{
        indexing_maps = [affine_map<(n, w, k) -> (n, w, k)>, affine_map<(n, w, k) -> (n, w, k)>,
                         affine_map<(n, w, k) -> (n, w, k)>],
        iterator_types = ["parallel", "parallel", "parallel"]
      }} ins(%sums, %bias : tensor<{shape}xf32>, tensor<{shape}xf32>) outs(%empty : tensor<{shape}xf32>) {{
      ^bb0(%sum: f32, %element: f32, %unused: f32):
        %biased = arith.addf %sum, %element : f32
        {operations}
        linalg.yield %value : f32
      }} -> tensor<{shape}xf32>
      return %result : tensor<{shape}xf32>
    }}"""
    program = iree.winograd.load(compile_rewritten(source, "cpu", [f"--iree-llvmcpu-target-cpu={cpu}"]))
    result = np.asarray(program(np.zeros_like(values), values)).ravel()
    return result[: ordinary.size], result[ordinary.size :][: EXTREME.size]


@pytest.mark.parametrize("cpu", ["host", *wide(["x86-64"])])
def test_exponential_over_all_exponents(cpu: str) -> None:
    ordinary = np.linspace(-87, 88, 61 * 64, dtype=np.float32)
    powers, extreme = after_zeros("%value = math.exp %biased : f32", ordinary, cpu)
    two_units = 2.0**-22
    np.testing.assert_allclose(powers, np.exp(ordinary.astype(np.float64)), rtol=two_units)
    np.testing.assert_array_equal(extreme, [np.inf, 0, np.nan, 1, 1, 1, np.inf, 0, np.inf, 0])


ROUNDOFF = {"f16": 2.0**-11, "bf16": 2.0**-8}


@pytest.mark.parametrize("type_", sampled(ROUNDOFF, ["f16"]))
@pytest.mark.parametrize("cpu", ["host", *wide(["haswell", "x86-64"])])
def test_sigmoids_of_half_precision_are_off_by_little_more_than_rounding(type_: str, cpu: str) -> None:
    """By that of an exponential, 2^-(digits + 5), and in bf16 by the estimate of a reciprocal, 2^-14."""
    ordinary = np.linspace(-9.5, 20, 60 * 64, dtype=np.float32)
    operations = f"""
        %opposite = arith.negf %biased : f32
        %power = math.exp %opposite : f32
        %one = arith.constant 1.0 : f32
        %more = arith.addf %power, %one : f32
        %sigmoid = arith.divf %one, %more : f32
        %half = arith.truncf %sigmoid : f32 to {type_}
        %value = arith.extf %half : {type_} to f32"""
    values, extreme = after_zeros(operations, ordinary, cpu)
    exact = 1 / (1 + np.exp(-ordinary.astype(np.float64)))
    bound = ROUNDOFF[type_] * (1 + 2.0**-5) + (2.0**-14 if type_ == "bf16" else 0)
    np.testing.assert_allclose(values, exact, rtol=bound)
    np.testing.assert_array_equal(extreme, [1, 0, np.nan, 0.5, 0.5, 0.5, 1, 0, 1, 0])


def test_what_cancels_keeps_all_digits_of_an_exponential() -> None:
    """e^x - 1, which has lost up to nine digits by then: that of two units of f32 is 2^-13 of it."""
    ordinary = np.geomspace(2.0**-9, 1, 4 * 64, dtype=np.float32)
    operations = """
        %power = math.exp %biased : f32
        %one = arith.constant 1.0 : f32
        %less = arith.subf %power, %one : f32
        %half = arith.truncf %less : f32 to f16
        %value = arith.extf %half : f16 to f32"""
    values, _ = after_zeros(operations, ordinary, "host")
    exact = np.expm1(ordinary.astype(np.float64))
    np.testing.assert_allclose(values, exact, rtol=ROUNDOFF["f16"] + 2.0**-13)


@pytest.mark.parametrize("cpu", ["host", *wide(["haswell", "x86-64"])])
def test_what_an_error_function_leaves_of_one(cpu: str) -> None:
    """Rounded to bf16, it is off by 2^-12 and an exponential's and an estimate's, or by 2^-21 of one."""
    ordinary = np.linspace(-6, 6, 60 * 64, dtype=np.float32)
    operations = """
        %error = math.erf %biased : f32
        %one = arith.constant 1.0 : f32
        %left = arith.addf %error, %one : f32
        %half = arith.truncf %left : f32 to bf16
        %value = arith.extf %half : bf16 to f32"""
    values, extreme = after_zeros(operations, ordinary, cpu)
    exact = np.array([math.erfc(-float(value)) for value in ordinary])
    bound = ROUNDOFF["bf16"] + 2.0**-12 + 2.0**-13 + 2.0**-14
    np.testing.assert_allclose(values, exact, rtol=bound, atol=2.0**-21)
    np.testing.assert_array_equal(extreme, [2, 0, np.nan, 1, 1, 1, 2, 0, 2, 0])


@pytest.mark.parametrize("cpu", ["host", *wide(["haswell", "x86-64"])])
def test_error_function(cpu: str) -> None:
    small = np.geomspace(1e-30, 1e-3, 64, dtype=np.float32)
    ordinary = np.concatenate([small, -small, np.linspace(-6, 6, 200 * 64, dtype=np.float32)])
    values, extreme = after_zeros("%value = math.erf %biased : f32", ordinary, cpu)
    exact = np.array([math.erf(float(value)) for value in ordinary])
    np.testing.assert_allclose(values, exact, rtol=2.0**-21)
    # GELU multiplies what is left of 1 by its argument, however large that is.
    assert np.abs(values).max() <= 1
    saturated = np.abs(ordinary) >= 4.0625
    np.testing.assert_array_equal(values[saturated], np.sign(ordinary[saturated]))
    np.testing.assert_array_equal(extreme[[0, 1, 6, 7, 8, 9]], [1, -1, 1, -1, 1, -1])
    np.testing.assert_allclose(
        extreme, [1, -1, np.nan, 0, 0, 1.13e-40, 1, -1, 1, -1], rtol=2.0**-21, atol=1e-38
    )


@pytest.mark.parametrize(
    "case",
    sampled(
        [*product(OPERANDS, [False]), *product(["n, w, h, k", "n, h, w", "k"], [True])],
        [*product(["n, w, h, k"], [False, True])],
    ),
    ids=str,
)
def test_pointwise_convolutions_add_operands_of_any_dimensions(case: tuple[str, bool]) -> None:
    """Their kernel counts the pixels of an image, whose rows an operand of only some dimensions needs."""
    dimensions, channels_first = case
    shape = OPERANDS[dimensions]
    operand = f"tensor<{'x'.join(map(str, shape))}xf32>"
    result = "tensor<2x40x7x9xf32>" if channels_first else "tensor<2x7x9x40xf32>"
    to_first = """
      %first = tensor.empty() : tensor<2x40x7x9xf32>
      %moved = linalg.transpose ins(%sum : tensor<2x7x9x40xf32>) outs(%first : tensor<2x40x7x9xf32>)
        permutation = [0, 3, 1, 2]"""
    source = f"""
    func.func @main(%image: tensor<2x7x9x20xf32>, %filter: tensor<1x1x20x40xf32>, %operand: {operand})
        -> {result} {{
      %zero = arith.constant 0.0 : f32
      %empty = tensor.empty() : tensor<2x7x9x40xf32>
      %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<2x7x9x40xf32>) -> tensor<2x7x9x40xf32>
      %products = linalg.conv_2d_nhwc_hwcf ins(%image, %filter : tensor<2x7x9x20xf32>, tensor<1x1x20x40xf32>)
        outs(%zeros : tensor<2x7x9x40xf32>) -> tensor<2x7x9x40xf32>
      %sum = linalg.generic {{
        indexing_maps = [affine_map<(n, h, w, k) -> (n, h, w, k)>, affine_map<(n, h, w, k) -> ({dimensions})>,
                         affine_map<(n, h, w, k) -> (n, h, w, k)>],
        iterator_types = ["parallel", "parallel", "parallel", "parallel"]
      }} ins(%products, %operand : tensor<2x7x9x40xf32>, {operand}) outs(%empty : tensor<2x7x9x40xf32>) {{
      ^bb0(%product: f32, %element: f32, %unused: f32):
        %total = arith.addf %product, %element : f32
        linalg.yield %total : f32
      }} -> tensor<2x7x9x40xf32>{to_first if channels_first else ""}
      return {"%moved" if channels_first else "%sum"} : {result}
    }}"""
    program = iree.winograd.load(compile_rewritten(source, "cpu"))
    random = np.random.default_rng(0)
    image, weights, other = (
        random.standard_normal(size).astype(np.float32) for size in ((2, 7, 9, 20), (1, 1, 20, 40), shape)
    )
    letters = dimensions.replace(", ", "")
    # Einstein's summation broadcasts the operand over the dimensions that it lacks.
    everywhere = np.einsum(f"{letters},nhwk->nhwk", other.astype(np.float64), np.ones((2, 7, 9, 40)))
    exact = image.astype(np.float64) @ weights[0, 0].astype(np.float64) + everywhere
    magnitude = np.abs(image).astype(np.float64) @ np.abs(weights[0, 0]) + np.abs(everywhere)
    actual = np.asarray(program(image, weights, other))
    if channels_first:
        actual = actual.transpose(0, 2, 3, 1)
    # A sum of 21 terms rounds 21 times at most.
    assert np.all(np.abs(actual - exact) <= 21 * 2.0**-24 * magnitude)
