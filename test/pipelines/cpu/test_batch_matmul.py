"""Products of the matrices of a batch, which lie wherever their program has them, against float64."""

from __future__ import annotations

from dataclasses import dataclass

import iree.winograd
import numpy as np
import numpy.typing as npt
import pytest
from agreement import expect_within
from iree.winograd.compiling.program import compile
from iree.winograd.dialect.algebra.numerics import SUM_BLOCK, predicted_error
from wide import wide_combinations

Array = npt.NDArray[np.float32]

UNIT_ROUNDOFF = 2.0**-24


@dataclass(frozen=True)
class Heads:
    """Queries, keys and values of some heads, of tokens side by side: the ways of attention's products."""

    heads: int
    queries: int
    keys: int
    channels: int

    @property
    def width(self) -> int:
        return self.heads * self.channels

    def scores(self, scale: float) -> str:
        """MLIR of `scale` * queries x keys of each head, both slices of the channels of tokens."""
        h, m, n, c, w = self.heads, self.queries, self.keys, self.channels, self.width
        return f"""
        #element = affine_map<(i, j, k) -> (i, j, k)>
        func.func @main(%q: tensor<{m}x{2 * w}xf32>, %k: tensor<{n}x{2 * w}xf32>)
            -> tensor<{h}x{m}x{n}xf32> {{
          %zero = arith.constant 0.0 : f32
          %scale = arith.constant {scale} : f32
          %qs = tensor.extract_slice %q[0, {w}] [{m}, {w}] [1, 1]
            : tensor<{m}x{2 * w}xf32> to tensor<{m}x{w}xf32>
          %ks = tensor.extract_slice %k[0, {w}] [{n}, {w}] [1, 1]
            : tensor<{n}x{2 * w}xf32> to tensor<{n}x{w}xf32>
          %qe = tensor.expand_shape %qs [[0], [1, 2]] output_shape [{m}, {h}, {c}]
            : tensor<{m}x{w}xf32> into tensor<{m}x{h}x{c}xf32>
          %ke = tensor.expand_shape %ks [[0], [1, 2]] output_shape [{n}, {h}, {c}]
            : tensor<{n}x{w}xf32> into tensor<{n}x{h}x{c}xf32>
          %el = tensor.empty() : tensor<{h}x{m}x{c}xf32>
          %l = linalg.transpose ins(%qe : tensor<{m}x{h}x{c}xf32>) outs(%el : tensor<{h}x{m}x{c}xf32>)
            permutation = [1, 0, 2]
          %s = linalg.generic {{indexing_maps = [#element, #element],
              iterator_types = ["parallel", "parallel", "parallel"]}}
            ins(%l : tensor<{h}x{m}x{c}xf32>) outs(%el : tensor<{h}x{m}x{c}xf32>) {{
          ^bb0(%a: f32, %o: f32):
            %p = arith.mulf %a, %scale : f32
            linalg.yield %p : f32
          }} -> tensor<{h}x{m}x{c}xf32>
          %er = tensor.empty() : tensor<{h}x{c}x{n}xf32>
          %r = linalg.transpose ins(%ke : tensor<{n}x{h}x{c}xf32>) outs(%er : tensor<{h}x{c}x{n}xf32>)
            permutation = [1, 2, 0]
          %e = tensor.empty() : tensor<{h}x{m}x{n}xf32>
          %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<{h}x{m}x{n}xf32>) -> tensor<{h}x{m}x{n}xf32>
          %y = linalg.batch_matmul ins(%s, %r : tensor<{h}x{m}x{c}xf32>, tensor<{h}x{c}x{n}xf32>)
            outs(%zeros : tensor<{h}x{m}x{n}xf32>) -> tensor<{h}x{m}x{n}xf32>
          return %y : tensor<{h}x{m}x{n}xf32>
        }}"""

    def mixtures(self) -> str:
        """MLIR of weights x values of each head, whose channels become side by side."""
        h, m, n, c = self.heads, self.queries, self.keys, self.channels
        return f"""
        func.func @main(%p: tensor<{h}x{m}x{n}xf32>, %v: tensor<{n}x{h}x{c}xf32>)
            -> tensor<{m}x{h}x{c}xf32> {{
          %zero = arith.constant 0.0 : f32
          %er = tensor.empty() : tensor<{h}x{n}x{c}xf32>
          %r = linalg.transpose ins(%v : tensor<{n}x{h}x{c}xf32>) outs(%er : tensor<{h}x{n}x{c}xf32>)
            permutation = [1, 0, 2]
          %e = tensor.empty() : tensor<{h}x{m}x{c}xf32>
          %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<{h}x{m}x{c}xf32>) -> tensor<{h}x{m}x{c}xf32>
          %y = linalg.batch_matmul ins(%p, %r : tensor<{h}x{m}x{n}xf32>, tensor<{h}x{n}x{c}xf32>)
            outs(%zeros : tensor<{h}x{m}x{c}xf32>) -> tensor<{h}x{m}x{c}xf32>
          %et = tensor.empty() : tensor<{m}x{h}x{c}xf32>
          %t = linalg.transpose ins(%y : tensor<{h}x{m}x{c}xf32>) outs(%et : tensor<{m}x{h}x{c}xf32>)
            permutation = [1, 0, 2]
          return %t : tensor<{m}x{h}x{c}xf32>
        }}"""


def random(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).uniform(-1, 1, shape).astype(np.float32)


CASES = [
    ("cpu", Heads(3, 50, 50, 64), 1),
    *wide_combinations(
        [
            ("cpu", Heads(1, 100, 7, 32), 2),
            ("cpu", Heads(5, 33, 49, 20), 2),
            ("cpu", Heads(2, 130, 61, 1), 4),
            ("cpu:haswell", Heads(3, 50, 49, 24), 2),
            ("cpu:x86-64", Heads(2, 30, 3, 6), 1),
        ]
    ),
]


@pytest.mark.parametrize(("target", "heads", "threads"), CASES)
def test_scores(target: str, heads: Heads, threads: int) -> None:
    scale = 0.1015625
    compiled = compile(heads.scores(scale), target=target, threads=threads, strict=True)
    assert b"winograd_batch_matmul" in compiled
    queries, keys = (random(count, 2 * heads.width) for count in (heads.queries, heads.keys))
    left, right = (
        each[:, heads.width :].reshape(len(each), heads.heads, -1).swapaxes(0, 1).astype(np.float64)
        for each in (queries, keys)
    )
    # Products and sums, one for each channel, round once each without fused multiply-adds; so does scaling.
    magnitudes = scale * np.abs(left) @ np.abs(right).swapaxes(1, 2)
    bound = 1.01 * (heads.channels + 2) * UNIT_ROUNDOFF * magnitudes
    result = iree.winograd.load(compiled, threads=threads)(queries, keys)
    expect_within(np.asarray(result), scale * left @ right.swapaxes(1, 2), bound)


@pytest.mark.parametrize(("target", "heads", "threads"), CASES)
def test_mixtures(target: str, heads: Heads, threads: int) -> None:
    compiled = compile(heads.mixtures(), target=target, threads=threads, strict=True)
    assert b"winograd_batch_matmul" in compiled
    weights = random(heads.heads, heads.queries, heads.keys)
    values = random(heads.keys, heads.heads, heads.channels)
    left, right = weights.astype(np.float64), values.swapaxes(0, 1).astype(np.float64)
    bound = 1.01 * (heads.keys + 1) * UNIT_ROUNDOFF * (np.abs(left) @ np.abs(right))
    result = iree.winograd.load(compiled, threads=threads)(weights, values)
    expect_within(np.asarray(result), (left @ right).swapaxes(0, 1), bound.swapaxes(0, 1))


def test_long_sums_are_added_in_blocks() -> None:
    heads = Heads(2, 40, 12000, 4)
    weights = random(heads.heads, heads.queries, heads.keys)
    values = random(heads.keys, heads.heads, heads.channels)
    compiled = compile(heads.mixtures(), threads=1, strict=True)
    assert b"winograd_batch_matmul" in compiled
    expected = (weights.astype(np.float64) @ values.swapaxes(0, 1)).swapaxes(0, 1)
    result = np.asarray(iree.winograd.load(compiled, device="local-sync")(weights, values))
    error = np.abs(result - expected).mean() / np.abs(expected).mean()
    in_blocks = 1.5 * predicted_error((1,), (1,), heads.keys, reduction_block=SUM_BLOCK)
    assert in_blocks < predicted_error((1,), (1,), heads.keys), "a running sum would be as good"
    assert error <= in_blocks


def test_what_is_beyond_the_columns_has_no_part() -> None:
    """Lanes that a panel has beyond all columns, and rows that overlap, take nothing from other heads."""
    heads = Heads(2, 40, 20, 18)
    compiled = compile(heads.mixtures(), target="cpu", threads=1, strict=True)
    weights, values = random(2, 40, 20), random(20, 2, 18)
    values[:, 1] = np.nan
    result = np.asarray(iree.winograd.load(compiled, threads=1)(weights, values))
    assert np.isfinite(result[:, 0]).all()
    assert np.isnan(result[:, 1]).all()
