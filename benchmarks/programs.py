"""A convolution layer as an MLIR program, the way a frontend hands it to the compiler."""

from __future__ import annotations

from benchmarks.convolutions import Array, ConvolutionLayer, Operands

LAYOUTS = ("nhwc", "nchw")

_PROGRAM = """\
#element = affine_map<({loops}) -> ({loops})>
#bias = affine_map<({loops}) -> (k)>
func.func @main(%image: tensor<{image}xf32>) -> tensor<{result}xf32> {{
  %zero = arith.constant 0.0 : f32
  %kernel = arith.constant dense_resource<kernel> : tensor<{kernel}xf32>
  %bias = arith.constant dense_resource<bias> : tensor<{filters}xf32>
  %padded = tensor.pad %image low[{padding}] high[{padding}] {{
  ^bb0(%i: index, %j: index, %l: index, %m: index):
    tensor.yield %zero : f32
  }} : tensor<{image}xf32> to tensor<{padded}xf32>
  %empty = tensor.empty() : tensor<{result}xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<{result}xf32>) -> tensor<{result}xf32>
  %convolved = linalg.{convolution}
    ins(%padded, %kernel : tensor<{padded}xf32>, tensor<{kernel}xf32>)
    outs(%init : tensor<{result}xf32>) -> tensor<{result}xf32>
  %result = linalg.generic {{indexing_maps = [#element, #bias, #element],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
    ins(%convolved, %bias : tensor<{result}xf32>, tensor<{filters}xf32>)
    outs(%empty : tensor<{result}xf32>) {{
  ^bb0(%x: f32, %b: f32, %unused: f32):
    %sum = arith.addf %x, %b : f32
    %positive = arith.maximumf %sum, %zero : f32
    linalg.yield %positive : f32
  }} -> tensor<{result}xf32>
  return %result : tensor<{result}xf32>
}}
{resources}
"""


def convolution_program(layer: ConvolutionLayer, operands: Operands, layout: str) -> str:
    """The layer as a function `main` of its image, with kernel and bias as resources.

    `layout` is "nhwc" (with a kernel R x S x C x K) or "nchw" (with a kernel K x C x R x S).
    """
    if layout not in LAYOUTS:
        raise ValueError(f"layout must be one of {LAYOUTS}, got {layout!r}")
    is_last = layout == "nhwc"
    kernel = operands.kernel if is_last else operands.kernel_fchw

    def ordered(height: object, width: object, channels: object, batch: object) -> list[str]:
        image = [batch, height, width, channels] if is_last else [batch, channels, height, width]
        return list(map(str, image))

    return _PROGRAM.format(
        loops=", ".join(ordered("h", "w", "k", "n")),
        padding=", ".join(ordered(1, 1, 0, 0)),
        image="x".join(ordered(layer.height, layer.width, layer.channels, layer.batch)),
        padded="x".join(ordered(layer.height + 2, layer.width + 2, layer.channels, layer.batch)),
        result="x".join(ordered(layer.height, layer.width, layer.filters, layer.batch)),
        kernel="x".join(map(str, kernel.shape)),
        filters=layer.filters,
        convolution="conv_2d_nhwc_hwcf" if is_last else "conv_2d_nchw_fchw",
        resources=_resources(kernel=kernel, bias=operands.bias),
    )


def _resources(**arrays: Array) -> str:
    alignment = (4).to_bytes(4, "little").hex()
    entries = ",\n      ".join(
        f'{name}: "0x{alignment}{array.tobytes().hex()}"' for name, array in arrays.items()
    )
    return f"{{-#\n  dialect_resources: {{\n    builtin: {{\n      {entries}\n    }}\n  }}\n#-}}"
