"""Products of a few rows and a constant matrix, against float64."""

from __future__ import annotations

import iree.winograd
import numpy as np
import pytest


@pytest.mark.filterwarnings("error::iree.winograd.RewriteWarning")
@pytest.mark.parametrize("rows", [1, 8, 16])
@pytest.mark.parametrize("transposed", [False, True])
def test_agrees_with_float64(rows: int, transposed: bool) -> None:
    channels, columns = 700, 190
    generator = np.random.default_rng(0)
    image = generator.uniform(-1, 1, (rows, channels)).astype(np.float32)
    matrix = generator.uniform(-1, 1, (channels, columns)).astype(np.float32)
    stored = matrix.T if transposed else matrix
    stored_type, matrix_type = "x".join(map(str, stored.shape)), f"{channels}x{columns}"
    transposition = (
        f"%t = tensor.empty() : tensor<{matrix_type}xf32>\n"
        f"%m = linalg.transpose ins(%w : tensor<{stored_type}xf32>) outs(%t : tensor<{matrix_type}xf32>) "
        "permutation = [1, 0]"
    )
    result = f"tensor<{rows}x{columns}xf32>"
    source = f"""func.func @main(%x: tensor<{rows}x{channels}xf32>) -> {result} {{
      %zero = arith.constant 0.0 : f32
      %w = arith.constant dense<"0x{stored.tobytes().hex()}"> : tensor<{stored_type}xf32>
      {transposition if transposed else ""}
      %e = tensor.empty() : {result}
      %z = linalg.fill ins(%zero : f32) outs(%e : {result}) -> {result}
      %r = linalg.matmul ins(%x, %{"m" if transposed else "w"} : tensor<{rows}x{channels}xf32>,
        tensor<{matrix_type}xf32>) outs(%z : {result}) -> {result}
      return %r : {result}
    }}"""
    function = iree.winograd.load(iree.winograd.compile(source, target="cpu"), device="local-sync")
    exact = image.astype(np.float64) @ matrix.astype(np.float64)
    bound = channels * np.finfo(np.float32).eps * (np.abs(image) @ np.abs(matrix))
    assert (np.abs(np.asarray(function(image)) - exact) <= bound).all()
