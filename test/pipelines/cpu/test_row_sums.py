"""Sums over rows of images whose sizes are known only at run time, of integers, which are exact."""

from __future__ import annotations

import iree.winograd
import numpy as np
import pytest
from wide import wide


def program(channels: int) -> str:
    """MLIR of sums of rows behind a pointwise convolution by the unit matrix, transposed: N x C x H x 1."""
    image, result = f"tensor<?x?x?x{channels}xf32>", f"tensor<?x{channels}x?x1xf32>"
    unit = np.eye(channels, dtype=np.float32).tobytes().hex().upper()
    filters = f"tensor<1x1x{channels}x{channels}xf32>"
    return f"""
    func.func @main(%x: {image}) -> {result} {{
      %zero = arith.constant 0.0 : f32
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %n = tensor.dim %x, %c0 : {image}
      %h = tensor.dim %x, %c1 : {image}
      %w = tensor.dim %x, %c2 : {image}
      %f = arith.constant dense<"0x{unit}"> : {filters}
      %e = tensor.empty(%n, %h, %w) : {image}
      %z = linalg.fill ins(%zero : f32) outs(%e : {image}) -> {image}
      %c = linalg.conv_2d_nhwc_hwcf ins(%x, %f : {image}, {filters}) outs(%z : {image}) -> {image}
      %s = tensor.empty(%n, %h) : {result}
      %i = linalg.fill ins(%zero : f32) outs(%s : {result}) -> {result}
      %r = linalg.generic {{
        indexing_maps = [affine_map<(n, c, h, w) -> (n, h, w, c)>, affine_map<(n, c, h, w) -> (n, c, h, 0)>],
        iterator_types = ["parallel", "parallel", "parallel", "reduction"]
      }} ins(%c : {image}) outs(%i : {result}) {{
      ^bb0(%element: f32, %sum: f32):
        %added = arith.addf %element, %sum : f32
        linalg.yield %added : f32
      }} -> {result}
      return %r : {result}
    }}"""


@pytest.mark.parametrize("channels", [21, *wide([3, 32])])
def test_sums_rows_of_any_size(channels: int) -> None:
    compiled = iree.winograd.compile(program(channels), threads=1, strict=True)
    assert b"winograd_row_sums" in compiled
    run = iree.winograd.load(compiled, device="local-sync")
    random = np.random.default_rng(0)
    for size in [(1, 1, 1), (2, 1, 13), (1, 7, 3), (3, 5, 40), (1, 4, 0), (1, 0, 4), (0, 2, 2)]:
        image = random.integers(-100, 100, (*size, channels)).astype(np.float32)
        expected = image.sum(axis=2).transpose(0, 2, 1)[..., None]
        np.testing.assert_array_equal(np.asarray(run(image)), expected)
