"""Softmax of rows and columns, whose numbers are no multiples of vectors, too."""

from __future__ import annotations

from math import prod

import iree.winograd
import numpy as np
import numpy.typing as npt
import pytest
from iree.winograd.compiling.program import compile
from softmax_program import program
from wide import lesser, wide_combinations

Array = npt.NDArray[np.float32]

UNIT_ROUNDOFF = 2.0**-24


def exact(x: Array, along: int = -1) -> npt.NDArray[np.float64]:
    exponentials = np.exp(x.astype(np.float64) - x.max(along, keepdims=True))
    result: npt.NDArray[np.float64] = exponentials / exponentials.sum(along, keepdims=True)
    return result


def bound(length: int) -> float:
    """The relative error of sums of so many exponentials of differences of at most 10.

    A difference is rounded once; the exponential is within 2 units of the last place, which are 4 roundings;
    then come a sum of as many, a division and a product.
    """
    return 1.01 * (10 + 4 + (4 + length) + 2) * UNIT_ROUNDOFF


@pytest.mark.parametrize(
    ("target", "shape"),
    [
        *(("cpu", shape) for shape in [(2, 40, 49)]),
        *wide_combinations(("cpu", shape) for shape in [(3, 16), (2, 3, 5, 197), (1, 3, 1000)]),
        *lesser([("cpu:haswell", (2, 40, 49)), ("cpu:x86-64", (2, 40, 49))]),
    ],
)
def test_softmax_of_rows(target: str, shape: tuple[int, ...]) -> None:
    compiled = compile(program(tuple(map(str, shape))), target=target, threads=2, strict=True)
    assert b"winograd_softmax" in compiled
    # Without the largest element subtracted, these exponentials would be infinite.
    x = np.random.default_rng(0).uniform(95, 105, shape).astype(np.float32)
    expected = exact(x)
    result = np.asarray(iree.winograd.load(compiled, threads=2)(x))
    np.testing.assert_allclose(result, expected, rtol=bound(shape[-1]))


COLUMNS = [
    # Few columns, or one; a block, one and a column, or one and a vector and a column; few rows.
    ((8, 305, 19), 1),
    ((2, 21, 1), 1),
    ((16, 3), 0),
    ((3, 40, 65), 1),
    ((40, 81), 0),
    ((2, 3, 16, 5, 7), 2),
    ((17, 2, 1, 1), 0),
    ((17, 1), 0),
    ((300, 16, 7), 1),
]


@pytest.mark.parametrize(
    ("target", "shape", "along"),
    [
        ("cpu", *COLUMNS[0]),
        *wide_combinations(("cpu", *case) for case in COLUMNS[1:]),
        *lesser((target, *COLUMNS[i]) for target in ("cpu:haswell", "cpu:x86-64") for i in (3,)),
    ],
)
def test_softmax_of_columns(target: str, shape: tuple[int, ...], along: int) -> None:
    compiled = compile(program(tuple(map(str, shape)), along), target=target, threads=2, strict=True)
    of_rows = along > 0 and prod(shape[along + 1 :]) == 1
    assert (b"winograd_softmax" if of_rows else b"winograd_column_softmax") in compiled
    x = np.random.default_rng(0).uniform(95, 105, shape).astype(np.float32)
    result = np.asarray(iree.winograd.load(compiled, threads=2)(x))
    np.testing.assert_allclose(result, exact(x, along), rtol=bound(shape[along]))


@pytest.mark.parametrize("shape", [(2, 1, 17), (2, 15, 17)])
def test_softmax_of_short_columns_is_left(shape: tuple[int, ...]) -> None:
    """One element lies nowhere along a column; IREE computes short ones with what lies around them."""
    compiled = compile(program(tuple(map(str, shape)), 1), target="cpu", threads=1, strict=True)
    assert b"winograd_column_softmax" not in compiled
    x = np.random.default_rng(0).uniform(95, 105, shape).astype(np.float32)
    result = np.asarray(iree.winograd.load(compiled, threads=1)(x))
    np.testing.assert_allclose(result, exact(x, 1), rtol=bound(shape[1]))


def test_columns_of_transposed_heads() -> None:
    """Keys of three heads, as a slice of what holds queries and values, too."""
    softmax = program(("1", "3", "30", "7"), 2).replace("func.func @main", "func.func private @softmax")
    attention = """
    func.func @main(%x: tensor<1x30x63xf32>) -> tensor<1x3x30x7xf32> {
      %split = tensor.expand_shape %x [[0], [1], [2, 3, 4]] output_shape [1, 30, 3, 3, 7]
        : tensor<1x30x63xf32> into tensor<1x30x3x3x7xf32>
      %k = tensor.extract_slice %split[0, 0, 1, 0, 0] [1, 30, 1, 3, 7] [1, 1, 1, 1, 1]
        : tensor<1x30x3x3x7xf32> to tensor<1x30x3x7xf32>
      %e = tensor.empty() : tensor<1x3x30x7xf32>
      %t = linalg.transpose ins(%k : tensor<1x30x3x7xf32>) outs(%e : tensor<1x3x30x7xf32>)
        permutation = [0, 2, 1, 3]
      BODY
    }"""
    body = softmax[softmax.index("{") + 1 : softmax.rindex("}")]
    for name in ("%e,", "%e ", "%e)"):
        body = body.replace(name, f"%whole{name[2:]}")
    body = body.replace("%x", "%t")
    compiled = compile(attention.replace("BODY", body), target="cpu", threads=1, strict=True)
    assert b"winograd_column_softmax_1x30x21" in compiled
    x = np.random.default_rng(0).uniform(95, 105, (1, 30, 63)).astype(np.float32)
    keys = x.reshape(1, 30, 3, 3, 7)[:, :, 1].transpose(0, 2, 1, 3)
    result = np.asarray(iree.winograd.load(compiled, threads=1)(x))
    np.testing.assert_allclose(result, exact(keys, 2), rtol=bound(30))


@pytest.mark.parametrize(
    ("shape", "along", "safe"), [((3, 21), 2, False), *wide_combinations([((2, 21, 5), 2, True)])]
)
def test_a_batch_known_at_run_time(shape: tuple[int, ...], along: int, safe: bool) -> None:
    text = program(("?", *map(str, shape)), along, safe)
    assert (b"winograd_safe_" in compile(text, target="cpu")) == safe
    loaded = iree.winograd.load(compile(text, target="cpu", threads=1, strict=True), threads=1)
    for batch in (1, 4):
        x = np.random.default_rng(batch).uniform(-5, 5, (batch, *shape)).astype(np.float32)
        np.testing.assert_allclose(np.asarray(loaded(x)), exact(x, along), rtol=bound(21))


@pytest.mark.parametrize(
    ("target", "safe", "along"),
    [
        ("cpu", False, 0),
        ("cpu", True, 1),
        *wide_combinations([("cpu", False, 1), ("cpu", True, 0)]),
        *lesser([("cpu:x86-64", True, 0), ("cpu:x86-64", False, 1)]),
    ],
)
def test_numbers_that_are_not_finite(along: int, safe: bool, target: str) -> None:
    """What is masked by minus infinity has no part; rows of nothing else have zeros or no softmax.

    Those with a NaN or an infinity have none.
    """
    shape = ("7", "21") if along == 1 else ("21", "7")
    compiled = compile(program(shape, along, safe), target=target, threads=1, strict=True)
    assert (b"winograd_safe_" in compiled) == safe
    loaded = iree.winograd.load(compiled, threads=1)
    x = np.zeros((7, 21), np.float32)
    x[0, 10:] = -np.inf
    x[1] = -np.inf
    x[2, 20] = np.nan
    x[3], x[3, 20] = -np.inf, np.nan
    x[4], x[4, 3] = -np.inf, np.inf
    # The least number isn't minus infinity.
    x[5], x[5, 3] = -np.inf, np.finfo(np.float32).min
    result = np.asarray(loaded(x)) if along == 1 else np.asarray(loaded(np.ascontiguousarray(x.T))).T
    np.testing.assert_allclose(result[0], [0.1] * 10 + [0.0] * 11, rtol=8 * UNIT_ROUNDOFF)
    np.testing.assert_array_equal(result[1], [0.0 if safe else np.nan] * 21)
    assert np.isnan(result[2:4]).all()
    assert np.isnan(result[4, 3])
    np.testing.assert_array_equal(result[5], [0.0] * 3 + [1.0] + [0.0] * 17)
    np.testing.assert_allclose(result[6], [1 / 21] * 21, rtol=8 * UNIT_ROUNDOFF)
