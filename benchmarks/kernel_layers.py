"""The programs whose kernels `benchmarks.kernel_text` writes: one for each way in which kernels differ."""

from __future__ import annotations

from dataclasses import dataclass

from iree.compiler import api
from iree.winograd.compiling.compilation import Compilation
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.selection.candidates import iree_implementation
from iree.winograd.tuning.measuring.program_of_problem import layer_program


@dataclass(frozen=True)
class KernelTarget:
    """What kernels are generated for, in the words of `iree.winograd.compile`."""

    target: str
    threads: int = 1


TARGETS = {
    "avx512": KernelTarget("cpu:sapphirerapids"),
    "avx512-2-threads": KernelTarget("cpu:sapphirerapids", threads=2),
    "avx2": KernelTarget("cpu:haswell"),
    "avx2-2-threads": KernelTarget("cpu:haswell", threads=2),
    "x86-64": KernelTarget("cpu:x86-64"),
    "neon": KernelTarget("cpu:neoverse-v1"),
    "neon-2-threads": KernelTarget("cpu:neoverse-v1", threads=2),
    "vulkan": KernelTarget("vulkan:rdna3"),
    "cuda": KernelTarget("cuda:sm_80"),
    "hip": KernelTarget("hip:gfx942"),
}


@dataclass(frozen=True)
class Layer:
    """A convolution with bias and ReLU, in the words of `ConvolutionProblem`, with tiles of a given size."""

    problem: str
    output_tile: int | None = None

    def build(self, compilation: Compilation) -> ir.Operation:
        problem = ConvolutionProblem.parse(self.problem)
        program = layer_program(problem)
        return program.build(compilation.context, iree_implementation(problem)).operation


@dataclass(frozen=True)
class Program:
    """A program as MLIR."""

    text: str
    output_tile: int | None = None

    def build(self, compilation: Compilation) -> api.Source:
        return api.Source.wrap_buffer(compilation.session, self.text.encode() + b"\0")


_3X3 = "kernel 3x3 stride 1x1 dilation 1x1 padding 1x1 1x1 groups"

_TRANSPOSED = """
func.func @main(%x: tensor<1x32x7x7xf32>, %w: tensor<32x16x4x4xf32>) -> tensor<1x16x14x14xf32> {
  %zero = arith.constant 0.0 : f32
  %spread_empty = tensor.empty() : tensor<1x32x17x17xf32>
  %spread_zeros = linalg.fill ins(%zero : f32) outs(%spread_empty : tensor<1x32x17x17xf32>)
    -> tensor<1x32x17x17xf32>
  %spread = tensor.insert_slice %x into %spread_zeros[0, 0, 2, 2] [1, 32, 7, 7] [1, 1, 2, 2]
    : tensor<1x32x7x7xf32> into tensor<1x32x17x17xf32>
  %turned_empty = tensor.empty() : tensor<16x32x4x4xf32>
  %turned = linalg.transpose ins(%w : tensor<32x16x4x4xf32>) outs(%turned_empty : tensor<16x32x4x4xf32>)
    permutation = [1, 0, 2, 3]
  %empty = tensor.empty() : tensor<1x16x14x14xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x16x14x14xf32>) -> tensor<1x16x14x14xf32>
  %result = linalg.conv_2d_nchw_fchw ins(%spread, %turned : tensor<1x32x17x17xf32>, tensor<16x32x4x4xf32>)
    outs(%zeros : tensor<1x16x14x14xf32>) -> tensor<1x16x14x14xf32>
  return %result : tensor<1x16x14x14xf32>
}
"""

_CONCATENATION = """
func.func @main(%x: tensor<1x14x14x32xf32>, %f: tensor<3x3x32x32xf32>, %g: tensor<1x1x64x16xf32>)
    -> tensor<1x14x14x80xf32> {
  %zero = arith.constant 0.0 : f32
  %padded = tensor.pad %x low[0, 1, 1, 0] high[0, 1, 1, 0] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %zero : f32
  } : tensor<1x14x14x32xf32> to tensor<1x16x16x32xf32>
  %empty = tensor.empty() : tensor<1x14x14x32xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x14x14x32xf32>) -> tensor<1x14x14x32xf32>
  %y = linalg.conv_2d_nhwc_hwcf ins(%padded, %f : tensor<1x16x16x32xf32>, tensor<3x3x32x32xf32>)
    outs(%zeros : tensor<1x14x14x32xf32>) -> tensor<1x14x14x32xf32>
  %both = tensor.concat dim(3) %x, %y : (tensor<1x14x14x32xf32>, tensor<1x14x14x32xf32>)
    -> tensor<1x14x14x64xf32>
  %narrow_empty = tensor.empty() : tensor<1x14x14x16xf32>
  %narrow_zeros = linalg.fill ins(%zero : f32) outs(%narrow_empty : tensor<1x14x14x16xf32>)
    -> tensor<1x14x14x16xf32>
  %z = linalg.conv_2d_nhwc_hwcf ins(%both, %g : tensor<1x14x14x64xf32>, tensor<1x1x64x16xf32>)
    outs(%narrow_zeros : tensor<1x14x14x16xf32>) -> tensor<1x14x14x16xf32>
  %all = tensor.concat dim(3) %both, %z : (tensor<1x14x14x64xf32>, tensor<1x14x14x16xf32>)
    -> tensor<1x14x14x80xf32>
  return %all : tensor<1x14x14x80xf32>
}
"""

_FULLY_CONNECTED = """
func.func @main(%x: tensor<{rows}x512xf32>) -> tensor<{rows}x256xf32> {{
  %zero = arith.constant 0.0 : f32
  %w = arith.constant dense<0.5> : tensor<512x256xf32>
  %empty = tensor.empty() : tensor<{rows}x256xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<{rows}x256xf32>) -> tensor<{rows}x256xf32>
  %r = linalg.matmul ins(%x, %w : tensor<{rows}x512xf32>, tensor<512x256xf32>)
    outs(%zeros : tensor<{rows}x256xf32>) -> tensor<{rows}x256xf32>
  return %r : tensor<{rows}x256xf32>
}}
"""

_RESIDUAL = """
#all = affine_map<(n, h, w, k) -> (n, h, w, k)>
#channels = affine_map<(n, h, w, k) -> (k)>
func.func @main(%x: tensor<1x14x14x64xf32>, %f: tensor<3x3x64x64xf32>, %b: tensor<64xf32>,
    %skipped: tensor<1x12x12x64xf32>) -> tensor<1x12x12x64xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<1x12x12x64xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x12x12x64xf32>) -> tensor<1x12x12x64xf32>
  %sums = linalg.conv_2d_nhwc_hwcf ins(%x, %f : tensor<1x14x14x64xf32>, tensor<3x3x64x64xf32>)
    outs(%zeros : tensor<1x12x12x64xf32>) -> tensor<1x12x12x64xf32>
  %result = linalg.generic {indexing_maps = [#all, #channels, #all, #all],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%sums, %b, %skipped : tensor<1x12x12x64xf32>, tensor<64xf32>, tensor<1x12x12x64xf32>)
    outs(%empty : tensor<1x12x12x64xf32>) {
  ^bb0(%sum: f32, %bias: f32, %other: f32, %unused: f32):
    %biased = arith.addf %sum, %bias : f32
    %added = arith.addf %biased, %other : f32
    %positive = arith.maximumf %added, %zero : f32
    linalg.yield %positive : f32
  } -> tensor<1x12x12x64xf32>
  return %result : tensor<1x12x12x64xf32>
}
"""

PROGRAMS: dict[str, Layer | Program] = {
    "chosen": Layer(f"1x28x28x64->64 {_3X3} 1 f32"),
    "direct": Layer(f"1x14x14x24->40 {_3X3} 1 f32", output_tile=1),
    "f2": Layer(f"1x14x14x24->40 {_3X3} 1 f32", output_tile=2),
    "f4": Layer(f"1x14x14x64->64 {_3X3} 1 f32", output_tile=4),
    "f6": Layer(f"2x14x14x64->64 {_3X3} 1 f32", output_tile=6),
    "odd-channels": Layer(f"1x11x9x13->19 {_3X3} 1 f32", output_tile=4),
    "first": Layer("1x56x56x3->32 kernel 7x7 stride 2x2 dilation 1x1 padding 3x3 3x3 groups 1 f32"),
    "first-narrow": Layer("1x56x56x3->16 kernel 3x3 stride 2x2 dilation 1x1 padding 1x1 1x1 groups 1 f32"),
    "pointwise": Layer("1x14x14x64->128 kernel 1x1 stride 1x1 dilation 1x1 padding 0x0 0x0 groups 1 f32"),
    "pointwise-strided": Layer(
        "1x14x14x64->128 kernel 1x1 stride 2x2 dilation 1x1 padding 0x0 0x0 groups 1 f32"
    ),
    "strided": Layer(
        "1x28x28x64->64 kernel 3x3 stride 2x2 dilation 1x1 padding 1x1 1x1 groups 1 f32", output_tile=4
    ),
    "dilated": Layer(
        "1x28x28x32->32 kernel 3x3 stride 1x1 dilation 2x2 padding 2x2 2x2 groups 1 f32", output_tile=4
    ),
    "large-kernel": Layer(
        "1x20x20x16->16 kernel 5x5 stride 1x1 dilation 1x1 padding 2x2 2x2 groups 1 f32", output_tile=4
    ),
    "row": Layer("1x17x17x64->64 kernel 1x7 stride 1x1 dilation 1x1 padding 0x3 0x3 groups 1 f32"),
    "grouped": Layer(f"1x14x14x64->64 {_3X3} 2 f32", output_tile=4),
    "narrow-groups": Layer(f"1x14x14x64->64 {_3X3} 16 f32"),
    "depthwise": Layer(f"1x14x14x96->96 {_3X3} 96 f32"),
    "depthwise-multiplied": Layer(f"1x14x14x32->64 {_3X3} 32 f32"),
    "few-tiles": Layer(f"1x7x7x512->512 {_3X3} 1 f32"),
    "images": Layer(f"16x14x14x64->64 {_3X3} 1 f32"),
    "dynamic-batch": Layer(f"?x14x14x64->64 {_3X3} 1 f32"),
    "dynamic-batch-direct": Layer(f"?x14x14x64->64 {_3X3} 1 f32", output_tile=1),
    "line": Layer("1x50x32->48 kernel 3 stride 1 dilation 1 padding 1 1 groups 1 f32"),
    "volume": Layer(
        "1x6x10x10x16->24 kernel 3x3x3 stride 1x1x1 dilation 1x1x1 padding 1x1x1 1x1x1 groups 1 f32"
    ),
    "transposed": Program(_TRANSPOSED),
    "concatenation": Program(_CONCATENATION),
    "fully-connected": Program(_FULLY_CONNECTED.format(rows=1)),
    "fully-connected-rows": Program(_FULLY_CONNECTED.format(rows=16)),
    "runtime-filter": Program(_RESIDUAL, output_tile=4),
    "residual": Program(_RESIDUAL, output_tile=1),
}
