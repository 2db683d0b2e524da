"""TOSA's convolutions, as TensorFlow Lite's models have them, against torch in double precision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import iree.winograd
import numpy as np
import pytest
import torch
from conformance import compile_rewritten
from iree.winograd.dialect.algebra.numerics import UNIT_ROUNDOFF
from torch.nn import functional


@dataclass(frozen=True)
class Operator:
    """One of them, with its sizes, and the same of torch's on channels-first tensors."""

    name: str
    image: tuple[int, ...]
    filters: tuple[int, ...]
    output: tuple[int, ...]
    attributes: str
    reference: Callable[[Any, Any, Any], Any]

    @property
    def program(self) -> str:
        image, filters, output = map(tensor, (self.image, self.filters, self.output))
        bias = tensor(self.output[-1:])
        return f"""\
func.func @main(%image: {image}, %filters: {filters}, %bias: {bias}) -> {output} {{
  %zero = "tosa.const"() <{{values = dense<0.0> : tensor<1xf32>}}> : () -> tensor<1xf32>
  %result = "tosa.{self.name}"(%image, %filters, %bias, %zero, %zero) <{{acc_type = f32, {self.attributes}}}>
    : ({image}, {filters}, {bias}, tensor<1xf32>, tensor<1xf32>) -> {output}
  return %result : {output}
}}
"""


def tensor(shape: tuple[int, ...]) -> str:
    return f"tensor<{'x'.join(map(str, shape))}xf32>"


OPERATORS = (
    Operator(
        "conv2d",
        (2, 9, 10, 8),
        (16, 3, 3, 8),
        (2, 5, 10, 16),
        "pad = array<i64: 1, 1, 1, 1>, stride = array<i64: 2, 1>, dilation = array<i64: 1, 1>",
        lambda image, filters, bias: functional.conv2d(
            image, filters.permute(0, 3, 1, 2), bias, stride=(2, 1), padding=1
        ),
    ),
    Operator(
        "depthwise_conv2d",
        (1, 9, 10, 8),
        (3, 3, 8, 2),
        (1, 9, 10, 16),
        "pad = array<i64: 1, 1, 1, 1>, stride = array<i64: 1, 1>, dilation = array<i64: 1, 1>",
        lambda image, filters, bias: functional.conv2d(
            image, filters.permute(2, 3, 0, 1).reshape(16, 1, 3, 3), bias, padding=1, groups=8
        ),
    ),
    Operator(
        "transpose_conv2d",
        (1, 9, 10, 8),
        (16, 3, 3, 8),
        (1, 19, 21, 16),
        "out_pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 2, 2>",
        lambda image, filters, bias: functional.conv_transpose2d(
            image, filters.permute(3, 0, 1, 2), bias, stride=2
        ),
    ),
    Operator(
        "conv3d",
        (1, 5, 6, 5, 8),
        (16, 3, 3, 3, 8),
        (1, 5, 6, 5, 16),
        "pad = array<i64: 1, 1, 1, 1, 1, 1>, stride = array<i64: 1, 1, 1>, dilation = array<i64: 1, 1, 1>",
        lambda image, filters, bias: functional.conv3d(
            image, filters.permute(0, 4, 1, 2, 3), bias, padding=1
        ),
    ),
)


@pytest.mark.parametrize(
    "operator",
    [
        pytest.param(each, id=each.name, marks=() if each.name == "conv2d" else pytest.mark.wide)
        for each in OPERATORS
    ],
)
def test_operator_is_rewritten_and_right(operator: Operator) -> None:
    generator = np.random.default_rng(0)
    shapes = (operator.image, operator.filters, operator.output[-1:])
    arguments = [generator.standard_normal(shape, np.float32) for shape in shapes]
    compiled = compile_rewritten(operator.program, flags=("--iree-input-type=tosa",))
    assert compiled.rewritten
    result = iree.winograd.load(compiled.program, "local-sync")(*arguments)
    image, filters, bias = (torch.from_numpy(argument).double() for argument in arguments)
    expected = operator.reference(image.movedim(-1, 1), filters, bias).movedim(1, -1).numpy()
    assert result.shape == expected.shape
    # F(m, r) may err some times as much as a direct convolution, which is within one roundoff per product.
    products = prod(operator.filters) // (8 if operator.name == "depthwise_conv2d" else 16)
    bound = 8 * products * UNIT_ROUNDOFF["float32"] * np.abs(expected).max()
    assert np.abs(result - expected).max() < bound
