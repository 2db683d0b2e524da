"""How large what an epilogue makes of a sum can be, from what it is computed by."""

from __future__ import annotations

import numpy as np
import pytest
from activations import ACTIVATIONS
from iree.winograd.dialect.bindings import ir
from iree.winograd.dialect.ops import OutputTransformOp
from iree.winograd.passes.match.epilogues.magnitude import Magnitude, match_magnitude
from iree.winograd.passes.match.navigation import transforms

TEXT = """
#f = {{dilation = array<i64: 1>, kernel_size = array<i64: 1>, output_tile = array<i64: 1>,
      part_size = array<i64: 1>, spacing = array<i64: 1>, step = array<i64: 1>, views = [array<i64: 0>]}}
func.func @f(%m: tensor<1x4x4xf32>, %image: tensor<1x4x4xf32>) -> tensor<1x4x4xf32> {{
  %bias = arith.constant dense<[-1.0, 2.0, 0.5, 0.0]> : tensor<4xf32>
  %whole = arith.constant dense<-7.0> : tensor<1x4x4xf32>
  %y = "winograd.output_transform"(%m, %bias, %image, %whole) ({{
  ^bb0(%accumulated: f32, %b: f32, %i: f32, %w: f32):
    %zero = arith.constant 0.0 : f32
    %three_half = arith.constant -1.5 : f32
    {body}
    vector.yield %finished : f32
  }}) {{decomposition = #f, groups = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0>,
    indexing_maps = [affine_map<(n, w, k) -> (k)>, affine_map<(n, w, k) -> (n, w, k)>,
      affine_map<(n, w, k) -> (n, w, k)>]}}
    : (tensor<1x4x4xf32>, tensor<4xf32>, tensor<1x4x4xf32>, tensor<1x4x4xf32>) -> tensor<1x4x4xf32>
  func.return %y : tensor<1x4x4xf32>
}}"""
BIASED = "%biased = arith.addf %accumulated, %b : f32\n"


def magnitude(body: str) -> Magnitude | None:
    with ir.Context() as context, ir.Location.unknown():
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(TEXT.format(body=body)).operation
        (transform,) = transforms(module, OutputTransformOp)
        return match_magnitude(transform)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_enlarge_no_number_beyond_the_bound(name: str) -> None:
    found = magnitude(BIASED + ACTIVATIONS[name].text)
    assert found is not None
    assert np.allclose(found.factor, 1) and np.allclose(found.addend, [1, 2, 0.5, 0])
    numbers = np.linspace(-50, 50, 2001)[:, None] + np.array([-1, 2, 0.5, 0])
    assert (np.abs(ACTIVATIONS[name].exact(numbers)) <= (1 + 1e-12) * np.abs(numbers)).all()


@pytest.mark.parametrize(
    ("body", "factor", "addend"),
    [
        ("%finished = arith.mulf %three_half, %accumulated : f32", 1.5, 0),
        ("%finished = arith.mulf %accumulated, %b : f32", [1, 2, 0.5, 0], 0),
        ("%finished = arith.subf %accumulated, %w : f32", 1, 7),
        ("%finished = arith.divf %accumulated, %three_half : f32", 1 / 1.5, 0),
        ("%n = arith.negf %accumulated : f32\n %finished = arith.addf %n, %accumulated : f32", 2, 0),
        # One of two numbers, whatever is compared; also as maxima are written for sm_90a.
        (
            "%c = arith.cmpf ugt, %i, %zero : f32\n"
            "%finished = arith.select %c, %accumulated, %three_half : f32",
            1,
            1.5,
        ),
        ("%finished = math.tanh %accumulated : f32", 0, 1),
        ("%t = math.tanh %i : f32\n %finished = arith.mulf %t, %accumulated : f32", 1, 0),
    ],
)
def test_magnitudes_follow_from_operands(body: str, factor: object, addend: float) -> None:
    found = magnitude(body)
    assert found is not None
    assert np.allclose(found.factor, factor) and np.allclose(found.addend, addend)


@pytest.mark.parametrize(
    "body",
    [
        "%finished = arith.addf %accumulated, %i : f32",
        "%finished = arith.mulf %accumulated, %i : f32",
        "%finished = arith.mulf %accumulated, %accumulated : f32",
        "%finished = math.exp %accumulated : f32",
        "%finished = arith.divf %three_half, %accumulated : f32",
    ],
    ids=["shortcut", "gate", "square", "exponential", "reciprocal"],
)
def test_what_nothing_bounds_has_no_magnitude(body: str) -> None:
    assert magnitude(body) is None
