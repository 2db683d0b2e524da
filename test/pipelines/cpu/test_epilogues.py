"""Epilogues of the CPU kernels that are more than arithmetic, against float64."""

from __future__ import annotations

import iree.winograd
import numpy as np
import pytest
from convolution_program import Program, compile_rewritten
from wide import wide

KERNELS = {
    "winograd": Program((14, 13), 5, 20, (3, 3), (4, 4), (3, 3), low=(1, 1), high=(1, 1)),
    "direct": Program((9, 30), 20, 50, (1, 1), (1, 1), (1, 1)),
    "direct, padded": Program(
        (9, 30), 3, 40, (3, 3), (1, 1), (1, 1), strides=(2, 2), low=(1, 1), high=(1, 1)
    ),
    "depthwise": Program((14, 13), 40, 40, (3, 3), (1, 1), (1, 1), low=(1, 1), high=(1, 1), groups=40),
}


@pytest.mark.parametrize("cpu", ["host", *wide(["haswell", "x86-64"])])
@pytest.mark.parametrize("activation", ["swish", "hard swish"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_activations_agree_with_float64(kernel: str, activation: str, cpu: str) -> None:
    program = KERNELS[kernel]
    fields = {name: getattr(program, name) for name in program.__dataclass_fields__}
    Program(**{**fields, "activation": activation}).check(flags=[f"--iree-llvmcpu-target-cpu={cpu}"])


@pytest.mark.parametrize("cpu", ["host", "x86-64"])
def test_exponential_over_all_exponents(cpu: str) -> None:
    """A convolution that keeps its input, then e to the power of it."""
    channels = 64
    ordinary = np.linspace(-87, 88, 61 * channels, dtype=np.float32)
    extreme = np.array([np.inf, -np.inf, np.nan, 0, -0.0, 1e-40, 3e38, -3e38, 89, -110], np.float32)
    values = np.concatenate([ordinary, np.resize(extreme, channels)]).reshape(1, -1, channels)
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
        %power = math.exp %biased : f32
        linalg.yield %power : f32
      }} -> tensor<{shape}xf32>
      return %result : tensor<{shape}xf32>
    }}"""
    program = iree.winograd.load(compile_rewritten(source, "cpu", [f"--iree-llvmcpu-target-cpu={cpu}"]))
    result = np.asarray(program(np.zeros_like(values), values))
    exact = np.exp(ordinary.astype(np.float64))
    two_units = 2.0**-22
    np.testing.assert_allclose(result.ravel()[: ordinary.size], exact, rtol=two_units)
    powers = result.ravel()[ordinary.size :][: extreme.size]
    np.testing.assert_array_equal(powers, [np.inf, 0, np.nan, 1, 1, 1, np.inf, 0, np.inf, 0])
