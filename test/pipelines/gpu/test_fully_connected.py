"""Products of few rows and a constant matrix on Vulkan, against float64."""

from __future__ import annotations

import iree.winograd
import numpy as np
import pytest
import torch
from agreement import expect_within
from torch import nn
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


class Timed(nn.Module):
    """A convolution and an embedding of a point in time, which is part of the model."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("time", torch.randn(1, 64))
        self.embed, self.convolve = nn.Linear(64, 32), nn.Conv2d(4, 32, 3, padding=1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.convolve(image)
        return result + self.embed(self.get_buffer("time"))[:, :, None, None]


def test_rows_of_constants_are_multiplied_when_a_program_is_loaded() -> None:
    """IREE would evaluate the product when it compiles the program, on a host that runs no such kernel."""
    imported = iree.winograd.import_torch(Timed().eval(), torch.randn(1, 4, 32, 32))
    assert b"winograd_" in bytes(iree.winograd.compile(imported, target="cuda:sm_90a", strict=True))
