"""Softmax of rows, whose lengths are no multiples of vectors, too."""

from __future__ import annotations

import iree.winograd
import numpy as np
import numpy.typing as npt
import pytest
from iree.winograd.program import compile

Array = npt.NDArray[np.float32]

UNIT_ROUNDOFF = 2.0**-24


def program(shape: tuple[str, ...]) -> str:
    """MLIR of the softmax of the rows of a tensor."""
    rank = len(shape)
    dimensions = [f"d{i}" for i in range(rank)]
    whole, row = (
        f"affine_map<({', '.join(dimensions)}) -> ({', '.join(dimensions[:count])})>"
        for count in (rank, rank - 1)
    )
    loops = ", ".join(['"parallel"'] * rank)
    reduction = ", ".join(['"parallel"'] * (rank - 1) + ['"reduction"'])
    tensor, rows = (f"tensor<{'x'.join([*sizes, 'f32'])}>" for sizes in (shape, shape[:-1]))
    size = "%n" if shape[0] == "?" else ""

    def elementwise(result: str, operands: str, types: str, maps: str, body: str) -> str:
        return f"""
      {result} = linalg.generic {{indexing_maps = [{maps}, {whole}], iterator_types = [{loops}]}}
        ins({operands} : {types}) outs(%e : {tensor}) {{
        ^bb0({body}
          linalg.yield %r : f32
      }} -> {tensor}"""

    def with_rows(result: str, operands: str, combine: str) -> str:
        body = f"%a: f32, %b: f32, %o: f32): %r = {combine} %a, %b : f32"
        return elementwise(result, operands, f"{tensor}, {rows}", f"{whole}, {row}", body)

    def reduced(result: str, operand: str, init: str, combine: str) -> str:
        return f"""
      {result} = linalg.generic {{indexing_maps = [{whole}, {row}], iterator_types = [{reduction}]}}
        ins({operand} : {tensor}) outs({init} : {rows}) {{
        ^bb0(%a: f32, %b: f32):
          %r = {combine} %a, %b : f32
          linalg.yield %r : f32
      }} -> {rows}"""

    return f"""
    func.func @main(%x: {tensor}) -> {tensor} {{
      %zero = arith.constant 0.0 : f32
      %lowest = arith.constant 0xFF800000 : f32
      %c0 = arith.constant 0 : index
      %n = tensor.dim %x, %c0 : {tensor}
      %e = tensor.empty({size}) : {tensor}
      %er = tensor.empty({size}) : {rows}
      %li = linalg.fill ins(%lowest : f32) outs(%er : {rows}) -> {rows}
      %zi = linalg.fill ins(%zero : f32) outs(%er : {rows}) -> {rows}
      {reduced("%m", "%x", "%li", "arith.maximumf")}
      {with_rows("%d", "%x, %m", "arith.subf")}
      {elementwise("%p", "%d", tensor, whole, "%a: f32, %o: f32): %r = math.exp %a : f32")}
      {reduced("%s", "%p", "%zi", "arith.addf")}
      {with_rows("%y", "%p, %s", "arith.divf")}
      return %y : {tensor}
    }}"""


def exact(x: Array) -> npt.NDArray[np.float64]:
    exponentials = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    result: npt.NDArray[np.float64] = exponentials / exponentials.sum(-1, keepdims=True)
    return result


@pytest.mark.parametrize(
    ("target", "shape"),
    [
        *(("cpu", shape) for shape in [(3, 16), (2, 40, 49), (2, 3, 5, 197), (700, 64), (1, 3, 1000)]),
        ("cpu:haswell", (2, 40, 49)),
        ("cpu:x86-64", (2, 40, 49)),
    ],
)
def test_softmax_of_rows(target: str, shape: tuple[int, ...]) -> None:
    compiled = compile(program(tuple(map(str, shape))), target=target, threads=2, strict=True)
    assert b"winograd_softmax" in compiled
    # Without the largest element subtracted, these exponentials would be infinite.
    x = np.random.default_rng(0).uniform(95, 105, shape).astype(np.float32)
    expected = exact(x)
    result = np.asarray(iree.winograd.load(compiled, threads=2)(x))
    # A difference of at most 10 is rounded once; the exponential is within 2 units of the last place, which
    # are 4 roundings; then come a sum of as many, a division and a product.
    roundings = 10 + 4 + (4 + shape[-1]) + 2
    np.testing.assert_allclose(result, expected, rtol=1.01 * roundings * UNIT_ROUNDOFF)


def test_a_batch_known_at_run_time() -> None:
    compiled = compile(program(("?", "3", "21")), target="cpu", threads=1, strict=True)
    loaded = iree.winograd.load(compiled, threads=1)
    for batch in (1, 4):
        x = np.random.default_rng(batch).uniform(-5, 5, (batch, 3, 21)).astype(np.float32)
        np.testing.assert_allclose(np.asarray(loaded(x)), exact(x), rtol=42 * UNIT_ROUNDOFF)


def test_numbers_that_are_not_finite() -> None:
    """What is masked by minus infinity has no part; rows of nothing else, or with a NaN, have no softmax."""
    compiled = compile(program(("4", "20")), target="cpu", threads=1, strict=True)
    loaded = iree.winograd.load(compiled, threads=1)
    x = np.zeros((4, 20), np.float32)
    x[0, 10:] = -np.inf
    x[1] = -np.inf
    x[2, 19] = np.nan
    result = np.asarray(loaded(x))
    np.testing.assert_allclose(result[0], [0.1] * 10 + [0.0] * 10, rtol=8 * UNIT_ROUNDOFF)
    assert np.isnan(result[1:3]).all()
    np.testing.assert_allclose(result[3], [0.05] * 20, rtol=8 * UNIT_ROUNDOFF)
