"""A convolution layer as an MLIR program, the way a frontend hands it to the compiler."""

from __future__ import annotations

from benchmarks.convolutions import Array, ConvolutionLayer, Operands

LAYOUTS = ("nhwc", "nchw")

_NHWC = """\
#element = affine_map<(n, h, w, k) -> (n, h, w, k)>
#bias = affine_map<(n, h, w, k) -> (k)>
func.func @main(%image: tensor<{n}x{h}x{w}x{c}xf32>) -> tensor<{n}x{h}x{w}x{k}xf32> {{
  %zero = arith.constant 0.0 : f32
  %kernel = arith.constant dense_resource<kernel> : tensor<3x3x{c}x{k}xf32>
  %bias = arith.constant dense_resource<bias> : tensor<{k}xf32>
  %padded = tensor.pad %image low[0, 1, 1, 0] high[0, 1, 1, 0] {{
  ^bb0(%i: index, %j: index, %l: index, %m: index):
    tensor.yield %zero : f32
  }} : tensor<{n}x{h}x{w}x{c}xf32> to tensor<{n}x{hp}x{wp}x{c}xf32>
  %empty = tensor.empty() : tensor<{n}x{h}x{w}x{k}xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<{n}x{h}x{w}x{k}xf32>)
    -> tensor<{n}x{h}x{w}x{k}xf32>
  %convolved = linalg.conv_2d_nhwc_hwcf
    ins(%padded, %kernel : tensor<{n}x{hp}x{wp}x{c}xf32>, tensor<3x3x{c}x{k}xf32>)
    outs(%init : tensor<{n}x{h}x{w}x{k}xf32>) -> tensor<{n}x{h}x{w}x{k}xf32>
  %result = linalg.generic {{indexing_maps = [#element, #bias, #element],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
    ins(%convolved, %bias : tensor<{n}x{h}x{w}x{k}xf32>, tensor<{k}xf32>)
    outs(%empty : tensor<{n}x{h}x{w}x{k}xf32>) {{
  ^bb0(%x: f32, %b: f32, %unused: f32):
    %sum = arith.addf %x, %b : f32
    %positive = arith.maximumf %sum, %zero : f32
    linalg.yield %positive : f32
  }} -> tensor<{n}x{h}x{w}x{k}xf32>
  return %result : tensor<{n}x{h}x{w}x{k}xf32>
}}
{resources}
"""

_NCHW = """\
#element = affine_map<(n, k, h, w) -> (n, k, h, w)>
#bias = affine_map<(n, k, h, w) -> (k)>
func.func @main(%image: tensor<{n}x{c}x{h}x{w}xf32>) -> tensor<{n}x{k}x{h}x{w}xf32> {{
  %zero = arith.constant 0.0 : f32
  %kernel = arith.constant dense_resource<kernel> : tensor<{k}x{c}x3x3xf32>
  %bias = arith.constant dense_resource<bias> : tensor<{k}xf32>
  %padded = tensor.pad %image low[0, 0, 1, 1] high[0, 0, 1, 1] {{
  ^bb0(%i: index, %j: index, %l: index, %m: index):
    tensor.yield %zero : f32
  }} : tensor<{n}x{c}x{h}x{w}xf32> to tensor<{n}x{c}x{hp}x{wp}xf32>
  %empty = tensor.empty() : tensor<{n}x{k}x{h}x{w}xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<{n}x{k}x{h}x{w}xf32>)
    -> tensor<{n}x{k}x{h}x{w}xf32>
  %convolved = linalg.conv_2d_nchw_fchw
    ins(%padded, %kernel : tensor<{n}x{c}x{hp}x{wp}xf32>, tensor<{k}x{c}x3x3xf32>)
    outs(%init : tensor<{n}x{k}x{h}x{w}xf32>) -> tensor<{n}x{k}x{h}x{w}xf32>
  %result = linalg.generic {{indexing_maps = [#element, #bias, #element],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
    ins(%convolved, %bias : tensor<{n}x{k}x{h}x{w}xf32>, tensor<{k}xf32>)
    outs(%empty : tensor<{n}x{k}x{h}x{w}xf32>) {{
  ^bb0(%x: f32, %b: f32, %unused: f32):
    %sum = arith.addf %x, %b : f32
    %positive = arith.maximumf %sum, %zero : f32
    linalg.yield %positive : f32
  }} -> tensor<{n}x{k}x{h}x{w}xf32>
  return %result : tensor<{n}x{k}x{h}x{w}xf32>
}}
{resources}
"""


def convolution_program(layer: ConvolutionLayer, operands: Operands, layout: str) -> str:
    """The layer as a function `main` of its image, with kernel and bias as resources.

    `layout` is "nhwc" (with a kernel R x S x C x K) or "nchw" (with a kernel K x C x R x S).
    """
    if layout not in LAYOUTS:
        raise ValueError(f"layout must be one of {LAYOUTS}, got {layout!r}")
    template, kernel = (_NHWC, operands.kernel) if layout == "nhwc" else (_NCHW, operands.kernel_fchw)
    return template.format(
        n=layer.batch,
        h=layer.height,
        w=layer.width,
        hp=layer.height + 2,
        wp=layer.width + 2,
        c=layer.channels,
        k=layer.filters,
        resources=_resources(kernel=kernel, bias=operands.bias),
    )


def _resources(**arrays: Array) -> str:
    alignment = (4).to_bytes(4, "little").hex()
    entries = ",\n      ".join(
        f'{name}: "0x{alignment}{array.tobytes().hex()}"' for name, array in arrays.items()
    )
    return f"{{-#\n  dialect_resources: {{\n    builtin: {{\n      {entries}\n    }}\n  }}\n#-}}"
