"""Products of the matrices of a batch that read and write views of other tensors, against float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import iree.winograd
import numpy as np
import numpy.typing as npt
import pytest
from agreement import expect_within
from iree.winograd.compiling.program import compile
from wide import sampled

Array = npt.NDArray[Any]

UNIT_ROUNDOFF = 2.0**-24
ZEROS = """
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x33x19xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<2x33x19xf32>) -> tensor<2x33x19xf32>"""
PRODUCT = (
    ZEROS
    + """
  %y = linalg.batch_matmul ins(%l, %w : tensor<2x33x20xf32>, tensor<2x20x19xf32>)
    outs(%zeros : tensor<2x33x19xf32>) -> tensor<2x33x19xf32>"""
)


@dataclass(frozen=True)
class Case:
    """A function of `arguments` and, last, of 2x20x19 matrices, in MLIR and on arrays of float64."""

    arguments: tuple[tuple[int, ...], ...]
    body: str
    result: tuple[int, ...]
    exact: Callable[..., Array]

    @property
    def text(self) -> str:
        types = [_type(shape) for shape in (*self.arguments, (2, 20, 19))]
        names = [f"x{i}" for i in range(len(self.arguments))] + ["w"]
        parameters = ", ".join(f"%{name}: {type_}" for name, type_ in zip(names, types, strict=True))
        result = _type(self.result)
        return f"func.func @main({parameters}) -> {result} {{{self.body}\n  return %r : {result}\n}}"


def _type(shape: tuple[int, ...]) -> str:
    return f"tensor<{'x'.join(map(str, shape))}xf32>"


def _scaled(name: str, source: str, shape: str, operation: str, number: str, sizes: str, index: str) -> str:
    """A tensor times, or over, one of `sizes` that holds one number, as ONNX models have it."""
    maps = ", ".join(f"affine_map<(b, i, j) -> {each}>" for each in ("(b, i, j)", index, "(b, i, j)"))
    type_, scalar = f"tensor<{shape}xf32>", f"tensor<{sizes}f32>"
    return f"""
  {name}_number = arith.constant dense<{number}> : {scalar}
  {name}_empty = tensor.empty() : {type_}
  {name} = linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel", "parallel", "parallel"]}}
    ins({source}, {name}_number : {type_}, {scalar}) outs({name}_empty : {type_}) {{
  ^bb0(%a: f32, %b: f32, %out: f32):
    %scaled = arith.{operation} %a, %b : f32
    linalg.yield %scaled : f32
  }} -> {type_}"""


CASES = {
    "a slice of a concatenation": Case(
        ((2, 17, 20), (2, 24, 20)),
        """
  %c = tensor.concat dim(1) %x0, %x1 : (tensor<2x17x20xf32>, tensor<2x24x20xf32>) -> tensor<2x41x20xf32>
  %l = tensor.extract_slice %c[0, 5, 0] [2, 33, 20] [1, 1, 1] : tensor<2x41x20xf32> to tensor<2x33x20xf32>"""
        + PRODUCT.replace("%y =", "%r ="),
        (2, 33, 19),
        lambda a, b, w: np.concatenate([a, b], 1)[:, 5:38] @ w,
    ),
    "a slice in steps, without a dimension of its source": Case(
        ((4, 65, 2, 20),),
        """
  %l = tensor.extract_slice %x0[1, 0, 1, 0] [2, 33, 1, 20] [2, 2, 1, 1]
    : tensor<4x65x2x20xf32> to tensor<2x33x20xf32>"""
        + PRODUCT.replace("%y =", "%r ="),
        (2, 33, 19),
        lambda x, w: x[1::2, ::2, 1] @ w,
    ),
    "every other channel": Case(
        ((2, 33, 40),),
        """
  %l = tensor.extract_slice %x0[0, 0, 1] [2, 33, 20] [1, 1, 2] : tensor<2x33x40xf32> to tensor<2x33x20xf32>"""
        + PRODUCT.replace("%y =", "%r ="),
        (2, 33, 19),
        lambda x, w: x[:, :, 1::2] @ w,
    ),
    "heads and windows of five dimensions": Case(
        ((3, 2, 11, 4, 5),),
        """
  %t = tensor.empty() : tensor<2x3x11x4x5xf32>
  %o = linalg.transpose ins(%x0 : tensor<3x2x11x4x5xf32>) outs(%t : tensor<2x3x11x4x5xf32>)
    permutation = [1, 0, 2, 3, 4]
  %l = tensor.collapse_shape %o [[0], [1, 2], [3, 4]] : tensor<2x3x11x4x5xf32> into tensor<2x33x20xf32>"""
        + PRODUCT.replace("%y =", "%r ="),
        (2, 33, 19),
        lambda x, w: x.swapaxes(0, 1).reshape(2, 33, 20) @ w,
    ),
    "rows and columns times tensors of one number": Case(
        ((2, 33, 20),),
        _scaled("%l", "%x0", "2x33x20", "mulf", "0.5", "", "()")
        + _scaled("%v", "%w", "2x20x19", "divf", "4.0", "1x1x1x", "(0, 0, 0)")
        + PRODUCT.replace("%y =", "%r =").replace("%l, %w", "%l, %v"),
        (2, 33, 19),
        lambda x, w: x @ w / 8,
    ),
    "a result transposed and cut": Case(
        ((2, 33, 20),),
        PRODUCT.replace("%l", "%x0")
        + """
  %f = tensor.empty() : tensor<33x2x19xf32>
  %t = linalg.transpose ins(%y : tensor<2x33x19xf32>) outs(%f : tensor<33x2x19xf32>) permutation = [1, 0, 2]
  %r = tensor.extract_slice %t[5, 0, 0] [7, 2, 19] [3, 1, 1] : tensor<33x2x19xf32> to tensor<7x2x19xf32>""",
        (7, 2, 19),
        lambda x, w: (x @ w).swapaxes(0, 1)[5:26:3],
    ),
}


@pytest.mark.parametrize("name", sampled(CASES, list(CASES)[:1]))
def test_views(name: str) -> None:
    case = CASES[name]
    compiled = compile(case.text, target="cpu", threads=2, strict=True)
    assert b"winograd_batch_matmul" in compiled
    generator = np.random.default_rng(0)
    arguments = [
        generator.uniform(-1, 1, shape).astype(np.float32) for shape in (*case.arguments, (2, 20, 19))
    ]
    wide = [argument.astype(np.float64) for argument in arguments]
    bound = 1.01 * 21 * UNIT_ROUNDOFF * case.exact(*map(np.abs, wide))
    result = np.asarray(iree.winograd.load(compiled, threads=2)(*arguments))
    expect_within(result, case.exact(*wide), bound)


OWN_TRANSPOSE = """
func.func @main(%x: tensor<3x33x20xf32>) -> tensor<3x33x33xf32> {
  %zero = arith.constant 0.0 : f32
  %f = tensor.empty() : tensor<3x20x33xf32>
  %t = linalg.transpose ins(%x : tensor<3x33x20xf32>) outs(%f : tensor<3x20x33xf32>) permutation = [0, 2, 1]
  %e = tensor.empty() : tensor<3x33x33xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<3x33x33xf32>) -> tensor<3x33x33xf32>
  %y = linalg.batch_matmul ins(%x, %t : tensor<3x33x20xf32>, tensor<3x20x33xf32>)
    outs(%zeros : tensor<3x33x33xf32>) -> tensor<3x33x33xf32>
  return %y : tensor<3x33x33xf32>
}"""


@pytest.mark.wide
def test_a_product_by_its_own_transpose() -> None:
    compiled = compile(OWN_TRANSPOSE, target="cpu", threads=2, strict=True)
    assert b"winograd_batch_matmul" in compiled
    x = np.random.default_rng(0).uniform(-1, 1, (3, 33, 20)).astype(np.float32)
    wide = x.astype(np.float64)
    bound = 1.01 * 21 * UNIT_ROUNDOFF * (np.abs(wide) @ np.abs(wide).swapaxes(1, 2))
    result = np.asarray(iree.winograd.load(compiled, threads=2)(x))
    expect_within(result, wide @ wide.swapaxes(1, 2), bound)
