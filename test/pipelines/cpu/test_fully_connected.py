"""Products of rows and a constant matrix, against float64."""

from __future__ import annotations

import iree.winograd
import numpy as np
import pytest
from agreement import expect_within
from wide import wide_combinations


@pytest.mark.parametrize(
    ("rows", "transposed"), [(37, True), *wide_combinations([(1, False), (8, True), (300, False)])]
)
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
    expect_within(function(image), exact, bound)


@pytest.mark.filterwarnings("error::iree.winograd.RewriteWarning")
def test_what_follows_on_images_agrees_with_float64() -> None:
    """A linear layer on the pixels of images, its bias and a sigmoid, as torch-mlir writes them."""
    sizes, channels, columns = (2, 5, 7), 96, 60
    generator = np.random.default_rng(0)
    image = generator.uniform(-1, 1, (*sizes, channels)).astype(np.float32)
    matrix = generator.uniform(-1, 1, (channels, columns)).astype(np.float32)
    bias = generator.uniform(-1, 1, columns).astype(np.float32)
    rows = int(np.prod(sizes))
    result = f"tensor<{'x'.join(map(str, sizes))}x{columns}xf32>"
    product = f"tensor<{rows}x{columns}xf32>"
    image_type = f"tensor<{'x'.join(map(str, sizes))}x{channels}xf32>"
    source = f"""func.func @main(%x: {image_type}) -> {result} {{
      %zero = arith.constant 0.0 : f32
      %one = arith.constant 1.0 : f32
      %w = arith.constant dense<"0x{matrix.tobytes().hex()}"> : tensor<{channels}x{columns}xf32>
      %b = arith.constant dense<"0x{bias.tobytes().hex()}"> : tensor<{columns}xf32>
      %rows = tensor.collapse_shape %x [[0, 1, 2], [3]] : {image_type} into tensor<{rows}x{channels}xf32>
      %e = tensor.empty() : {product}
      %z = linalg.fill ins(%zero : f32) outs(%e : {product}) -> {product}
      %p = linalg.matmul ins(%rows, %w : tensor<{rows}x{channels}xf32>, tensor<{channels}x{columns}xf32>)
        outs(%z : {product}) -> {product}
      %s = linalg.generic {{
        indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>,
                         affine_map<(i, j) -> (i, j)>],
        iterator_types = ["parallel", "parallel"]
      }} ins(%p, %b : {product}, tensor<{columns}xf32>)
        outs(%e : {product}) {{
      ^bb0(%a: f32, %c: f32, %out: f32):
        %t = arith.addf %a, %c : f32
        linalg.yield %t : f32
      }} -> {product}
      %i = tensor.expand_shape %s [[0, 1, 2], [3]] output_shape {[*sizes, columns]}
        : {product} into {result}
      %o = tensor.empty() : {result}
      %r = linalg.generic {{
        indexing_maps = [affine_map<(n, h, w, k) -> (n, h, w, k)>, affine_map<(n, h, w, k) -> (n, h, w, k)>],
        iterator_types = ["parallel", "parallel", "parallel", "parallel"]
      }} ins(%i : {result}) outs(%o : {result}) {{
      ^bb0(%a: f32, %out: f32):
        %n = arith.negf %a : f32
        %x1 = math.exp %n : f32
        %t = arith.addf %x1, %one : f32
        %u = arith.divf %one, %t : f32
        linalg.yield %u : f32
      }} -> {result}
      return %r : {result}
    }}"""
    function = iree.winograd.load(iree.winograd.compile(source, target="cpu"), device="local-sync")
    exact = 1 / (1 + np.exp(-(image.astype(np.float64) @ matrix.astype(np.float64) + bias)))
    products = np.abs(image) @ np.abs(matrix) + np.abs(bias)
    bound = (channels + 1) * np.finfo(np.float32).eps * products / 4 + 4 * np.finfo(np.float32).eps
    expect_within(function(image), exact, bound)
