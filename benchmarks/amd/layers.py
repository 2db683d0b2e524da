"""The layers that AMD's kernels are looked at for: ResNet-50's, VGG-16's and Stable Diffusion's."""

from __future__ import annotations

from benchmarks.square_layer import SquareLayer

_PROGRAM = """\
#all = affine_map<(n, h, w, k) -> (n, h, w, k)>
#channels = affine_map<(n, h, w, k) -> (k)>
func.func @main({arguments}) -> tensor<{result}xf32> {{
  %zero = arith.constant 0.0 : f32
{constant}  %bias = arith.constant dense<0.25> : tensor<{filters}xf32>
  %padded = tensor.pad %image low[0, {padding}, {padding}, 0] high[0, {padding}, {padding}, 0] {{
  ^bb0(%i: index, %j: index, %l: index, %m: index):
    tensor.yield %zero : f32
  }} : tensor<{image}xf32> to tensor<{padded}xf32>
  %empty = tensor.empty() : tensor<{result}xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<{result}xf32>) -> tensor<{result}xf32>
  %sums = linalg.conv_2d_nhwc_hwcf ins(%padded, %filter : tensor<{padded}xf32>, tensor<{filter}xf32>)
    outs(%zeros : tensor<{result}xf32>) -> tensor<{result}xf32>
  %result = linalg.generic {{indexing_maps = [#all, #channels, #all],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
    ins(%sums, %bias : tensor<{result}xf32>, tensor<{filters}xf32>) outs(%empty : tensor<{result}xf32>) {{
  ^bb0(%sum: f32, %b: f32, %unused: f32):
    %biased = arith.addf %sum, %b : f32
    %positive = arith.maximumf %biased, %zero : f32
    linalg.yield %positive : f32
  }} -> tensor<{result}xf32>
  return %result : tensor<{result}xf32>
}}
"""


def layer_text(layer: SquareLayer, *, constant_filter: bool = True) -> str:
    """The layer as MLIR, with bias and ReLU. All elements of a constant filter are the same.

    Kernels of ours load them packed, whatever they are. IREE would make them part of its code.
    """
    padding = layer.taps // 2
    padded = layer.size + 2 * padding
    filter_type = f"tensor<{layer.taps}x{layer.taps}x{layer.channels}x{layer.filters}xf32>"
    arguments = [f"%image: tensor<{layer.batch}x{layer.size}x{layer.size}x{layer.channels}xf32>"]
    constant = f"  %filter = arith.constant dense<0.5> : {filter_type}\n"
    if not constant_filter:
        arguments.append(f"%filter: {filter_type}")
        constant = ""
    return _PROGRAM.format(
        arguments=", ".join(arguments),
        constant=constant,
        image=f"{layer.batch}x{layer.size}x{layer.size}x{layer.channels}",
        padded=f"{layer.batch}x{padded}x{padded}x{layer.channels}",
        result=f"{layer.batch}x{layer.size}x{layer.size}x{layer.filters}",
        filter=f"{layer.taps}x{layer.taps}x{layer.channels}x{layer.filters}",
        filters=layer.filters,
        padding=padding,
    )


_RESNET = ((56, 64, 64), (28, 128, 128), (14, 256, 256), (7, 512, 512), (56, 64, 256, 1), (14, 1024, 256, 1))
_VGG = ((224, 64, 64), (112, 128, 128), (56, 256, 256), (28, 512, 512), (14, 512, 512))
_DIFFUSION = (
    (2, 64, 320),
    (2, 32, 640),
    (2, 16, 1280),
    (2, 8, 1280),
    (1, 512, 128),
    (1, 256, 256),
    (1, 128, 512),
)

LAYERS = {
    layer.name: layer
    for layer in (
        *(SquareLayer(batch, *sizes) for batch in (1, 32) for sizes in (*_RESNET, *_VGG)),
        *(SquareLayer(batch, size, channels, channels) for batch, size, channels in _DIFFUSION),
    )
}
"""By their names."""
