"""Functions that are called more than once compute with the arguments of each call."""

from __future__ import annotations

import iree.winograd as winograd
import numpy as np
import pytest

PROGRAM = """\
func.func private @difference(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32>
    attributes {{noinline}} {{
  %0 = arith.subf %x, %y : tensor<4xf32>
  return %0 : tensor<4xf32>
}}
func.func private @double(%x: tensor<4xf32>) -> tensor<4xf32> attributes {{noinline}} {{
  %0 = arith.addf %x, %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}}
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {{
  %p = call @double(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %q = call @double(%y) : (tensor<4xf32>) -> tensor<4xf32>
  %first = call @difference({first}) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s = arith.addf %x, %y : tensor<4xf32>
  %t = arith.mulf %y, %y : tensor<4xf32>
  %second = call @difference({second}) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %u = math.absf %first : tensor<4xf32>
  %v = math.absf %second : tensor<4xf32>
  return %u, %v : tensor<4xf32>, tensor<4xf32>
}}
"""
"""IREE computes `%s` and `%t`, which nothing else uses, in one memory."""
X = np.array([1, 2, 3, 4], np.float32)
Y = np.array([16, 32, 64, 128], np.float32)
VALUES = {"%x": X, "%y": Y, "%p": 2 * X, "%q": 2 * Y, "%s": X + Y, "%t": Y * Y}
"""Small integers, as all that is computed of them: exact."""


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(("%x", "%y"), ("%x", "%x"), id="one value twice"),
        pytest.param(("%x", "%x"), ("%x", "%y"), id="one value twice, first", marks=pytest.mark.wide),
        pytest.param(("%p", "%q"), ("%s", "%t"), id="parts of one memory", marks=pytest.mark.wide),
        pytest.param(("%x", "%y"), ("%s", "%t"), id="an argument of the program's and memory of its own"),
    ],
)
def test_each_call_has_its_arguments(first: tuple[str, str], second: tuple[str, str]) -> None:
    text = PROGRAM.format(first=", ".join(first), second=", ".join(second))
    compiled = winograd.compile(text, target="cpu", strict=True)
    results = winograd.load(compiled, device="local-sync")(X, Y)
    for result, (left, right) in zip(results, (first, second), strict=True):
        np.testing.assert_array_equal(result, np.abs(VALUES[left] - VALUES[right]))
