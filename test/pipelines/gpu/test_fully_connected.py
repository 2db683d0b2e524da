"""Products of few rows and a constant matrix on Vulkan, against float64."""

from __future__ import annotations

import iree.winograd
import numpy as np
import pytest
from agreement import expect_within
from wide import wide


@pytest.mark.parametrize("rows", [*wide([8]), 33])
def test_agrees_with_float64(rows: int, gpu_target: str, gpu_device: str) -> None:
    channels, columns = 700, 190
    generator = np.random.default_rng(0)
    image = generator.uniform(-1, 1, (rows, channels)).astype(np.float32)
    matrix = generator.uniform(-1, 1, (channels, columns)).astype(np.float32)
    matrix_type, result = f"tensor<{channels}x{columns}xf32>", f"tensor<{rows}x{columns}xf32>"
    source = f"""func.func @main(%x: tensor<{rows}x{channels}xf32>) -> {result} {{
      %zero = arith.constant 0.0 : f32
      %w = arith.constant dense<"0x{matrix.tobytes().hex()}"> : {matrix_type}
      %e = tensor.empty() : {result}
      %z = linalg.fill ins(%zero : f32) outs(%e : {result}) -> {result}
      %r = linalg.matmul ins(%x, %w : tensor<{rows}x{channels}xf32>, {matrix_type})
        outs(%z : {result}) -> {result}
      return %r : {result}
    }}"""
    program = iree.winograd.compile(source, target=gpu_target)
    assert b"winograd_" in program
    exact = image.astype(np.float64) @ matrix.astype(np.float64)
    bound = channels * np.finfo(np.float32).eps * (np.abs(image) @ np.abs(matrix))
    expect_within(iree.winograd.load(program, device=gpu_device)(image), exact, bound)
