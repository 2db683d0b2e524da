"""Small programs, and the command that compiles one of them."""

from __future__ import annotations

import subprocess
from pathlib import Path

from iree.winograd.command_line.tool_directory import TOOL_DIRECTORY
from iree.winograd.targets import target_flags
from warm_python import driver_environment

ENABLE = "--iree-enable-winograd"
STRICT = "--iree-winograd-strict"
ADD = """\
func.func @add(%lhs: tensor<8xf32>, %rhs: tensor<8xf32>) -> tensor<8xf32> {
  %sum = arith.addf %lhs, %rhs : tensor<8xf32>
  return %sum : tensor<8xf32>
}
"""
INSERTION = """\
func.func @main(%row: tensor<1x64xf32>, %target: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %r = tensor.insert_slice %row into %target[1, 0] [1, 64] [1, 1] : tensor<1x64xf32> into tensor<4x64xf32>
  return %r : tensor<4x64xf32>
}
"""
"""IREE would insert into the memory of the argument."""
CONVOLUTION = """\
func.func @convolution(%image: tensor<1x18x18x16xf32>) -> tensor<1x16x16x16xf32> {
  %filter = arith.constant dense<0.5> : tensor<3x3x16x16xf32>
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<1x16x16x16xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x16x16x16xf32>) -> tensor<1x16x16x16xf32>
  %result = linalg.conv_2d_nhwc_hwcf
    {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
    ins(%image, %filter : tensor<1x18x18x16xf32>, tensor<3x3x16x16xf32>)
    outs(%init : tensor<1x16x16x16xf32>) -> tensor<1x16x16x16xf32>
  return %result : tensor<1x16x16x16xf32>
}
"""


def compile_convolution(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs our `iree-compile` for Haswell on `CONVOLUTION`, as `convolution.mlir` in the current folder."""
    Path("convolution.mlir").write_text(CONVOLUTION)
    flags = (ENABLE, STRICT, *target_flags("cpu:haswell"), *arguments, "convolution.mlir")
    command = [TOOL_DIRECTORY / "iree-compile", *flags]
    return subprocess.run(command, capture_output=True, text=True, env=driver_environment(), check=False)
