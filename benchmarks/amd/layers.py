"""The layers that AMD's kernels are looked at for: ResNet-50's, VGG-16's and Stable Diffusion's."""

from __future__ import annotations

from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem

from benchmarks.convolutions import DIFFUSION
from benchmarks.square_layer import SquareLayer

_PROGRAM = """\
#all = affine_map<(n, h, w, k) -> (n, h, w, k)>
#channels = affine_map<(n, h, w, k) -> (k)>
func.func @main({arguments}) -> {result} {{
  %zero = arith.constant 0.0 : f32
{constant}  %bias = arith.constant dense<0.25> : {bias}
  %padded = tensor.pad %image low[0, {low}, 0] high[0, {high}, 0] {{
  ^bb0(%i: index, %j: index, %l: index, %m: index):
    tensor.yield %zero : f32
  }} : {image} to {padded}
{convolution}
  %empty = tensor.empty() : {result}
  %result = linalg.generic {{indexing_maps = [#all, #channels, #all],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
    ins(%sums, %bias : {result}, {bias}) outs(%empty : {result}) {{
  ^bb0(%sum: f32, %b: f32, %unused: f32):
    %biased = arith.addf %sum, %b : f32
    %positive = arith.maximumf %biased, %zero : f32
    linalg.yield %positive : f32
  }} -> {result}
  return %result : {result}
}}
"""
_CONVOLUTION = """\
  %none = tensor.empty() : {result}
  %zeros = linalg.fill ins(%zero : f32) outs(%none : {result}) -> {result}
  %sums = linalg.{operation} {{strides = dense<{strides}> : vector<2xi64>,
      dilations = dense<{dilations}> : vector<2xi64>}}
    ins(%padded, %filter : {padded}, {filter}) outs(%zeros : {result}) -> {result}"""
_GROUPED_CONVOLUTION = """\
  %none = tensor.empty() : {grouped_result}
  %zeros = linalg.fill ins(%zero : f32) outs(%none : {grouped_result}) -> {grouped_result}
  %grouped = tensor.expand_shape %padded [[0], [1], [2], [3, 4]] output_shape {grouped_sizes}
    : {padded} into {grouped}
  %grouped_sums = linalg.conv_2d_nhwgc_gfhwc {{strides = dense<{strides}> : vector<2xi64>,
      dilations = dense<{dilations}> : vector<2xi64>}}
    ins(%grouped, %filter : {grouped}, {filter}) outs(%zeros : {grouped_result}) -> {grouped_result}
  %sums = tensor.collapse_shape %grouped_sums [[0], [1], [2], [3, 4]] : {grouped_result} into {result}"""


def layer_text(layer: SquareLayer, *, constant_filter: bool = True) -> str:
    """The layer as MLIR, as `problem_text` has it."""
    return problem_text(layer_problem(layer), constant_filter=constant_filter)


def layer_problem(layer: SquareLayer) -> ConvolutionProblem:
    """The layer as a problem."""
    return ConvolutionProblem(
        batch=layer.batch,
        input_size=(layer.size,) * 2,
        padding_low=(layer.taps // 2,) * 2,
        padding_high=(layer.taps // 2,) * 2,
        kernel_size=(layer.taps,) * 2,
        strides=(layer.stride,) * 2,
        dilations=(1, 1),
        groups=1,
        input_channels=layer.channels,
        output_channels=layer.filters,
    )


def problem_text(problem: ConvolutionProblem, *, constant_filter: bool = True) -> str:
    """A convolution of images as MLIR, with bias and ReLU. All elements of a constant filter are the same.

    Kernels of ours load them packed, whatever they are. IREE would make them part of its code.
    """
    batch, groups = problem.batch, problem.groups
    inputs, outputs = problem.group_inputs, problem.group_outputs
    padded = [
        sum(sizes)
        for sizes in zip(problem.input_size, problem.padding_low, problem.padding_high, strict=True)
    ]
    operation, filters = "conv_2d_nhwc_hwcf", (*problem.kernel_size, inputs, outputs)
    convolution = _CONVOLUTION
    if groups > 1 and inputs == outputs == 1:
        operation, filters = "depthwise_conv_2d_nhwc_hwc", (*problem.kernel_size, groups)
    elif groups > 1:
        convolution, filters = _GROUPED_CONVOLUTION, (groups, outputs, *problem.kernel_size, inputs)
    types = {
        "image": _tensor(batch, *problem.input_size, problem.input_channels),
        "padded": _tensor(batch, *padded, problem.input_channels),
        "result": _tensor(batch, *problem.output_size, problem.output_channels),
        "filter": _tensor(*filters),
        "bias": _tensor(problem.output_channels),
    }
    arguments = [f"%image: {types['image']}"]
    constant = f"  %filter = arith.constant dense<0.5> : {types['filter']}\n"
    if not constant_filter:
        arguments.append(f"%filter: {types['filter']}")
        constant = ""
    return _PROGRAM.format(
        arguments=", ".join(arguments),
        constant=constant,
        low=", ".join(map(str, problem.padding_low)),
        high=", ".join(map(str, problem.padding_high)),
        convolution=convolution.format(
            operation=operation,
            strides=list(problem.strides),
            dilations=list(problem.dilations),
            grouped=_tensor(batch, *padded, groups, inputs),
            grouped_sizes=[batch, *padded, groups, inputs],
            grouped_result=_tensor(batch, *problem.output_size, groups, outputs),
            **types,
        ),
        **types,
    )


def _tensor(*sizes: int | None) -> str:
    return f"tensor<{'x'.join(map(str, sizes))}xf32>"


_RESNET = ((56, 64, 64), (28, 128, 128), (14, 256, 256), (7, 512, 512), (56, 64, 256, 1), (14, 1024, 256, 1))
_VGG = ((224, 64, 64), (112, 128, 128), (56, 256, 256), (28, 512, 512), (14, 512, 512))

LAYERS = {
    layer.name: layer
    for layer in (
        *(SquareLayer(batch, *sizes) for batch in (1, 32) for sizes in (*_RESNET, *_VGG)),
        *(SquareLayer(batch, size, channels, channels) for batch, size, channels in DIFFUSION),
    )
}
"""By their names."""
