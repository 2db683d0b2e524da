"""Leave out the outer taps of convolutions that read nothing but padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.passes.build.convolution import build_convolution
from iree.winograd.passes.build.groups import merged, split
from iree.winograd.passes.build.slices import extracted, padded
from iree.winograd.passes.build.tensors import shape_of, zero_filled
from iree.winograd.passes.infrastructure.algorithm import ATTRIBUTE_NAME, copy_annotations
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.convolutions.convolution import Convolution, match_convolution
from iree.winograd.passes.match.convolutions.convolution_form import convolutions
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.passes.match.convolutions.weight_gradient import (
    IN_SUMS_WORDS,
    WeightGradient,
    is_weight_gradient,
    match_weight_gradient,
)
from iree.winograd.passes.match.layouts.padding import match_paddings
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.rewrite.erasure import erase_if_unused
from iree.winograd.passes.rewrite.similar_convolution import build_similar


@register_pass("winograd-trim-taps")
class TrimTaps:
    """Leave out the outer taps of convolutions that read nothing but padding.

    A network for segmentation ends with convolutions of dilations that come near the size of their image, or
    exceed it: the outer taps then lie in the padding, whichever output they are for. Filter and padding lose
    them, so that a 3x3 convolution may become a pointwise one. The gradient of such a tap is zero: it isn't
    summed up. Rewritten are convolutions of channels-last images whose sizes and padding are known, but for
    those annotated with an algorithm.

        %p = tensor.pad %x low[0, 36, 36, 0] high[0, 36, 36, 0] : tensor<1x28x28x64xf32> to ...
        %c = linalg.conv_2d_nhwc_hwcf {dilations = 36} ins(%p, %w : ..., tensor<3x3x64x32xf32>)
      becomes
        %v = tensor.extract_slice %w[1, 1, 0, 0] [1, 1, 64, 32] [1, 1, 1, 1]
        %c = linalg.conv_2d_nhwc_hwcf ins(%x, %v : ..., tensor<1x1x64x32xf32>)
    """

    def run(self, module: ir.Operation) -> None:
        rewrite_each("convolution", list(convolutions(module)), _trim)


@dataclass(frozen=True)
class _Trimmed:
    """What is left of a convolution: taps, and the padding that they read."""

    problem: ConvolutionProblem
    taps: tuple[range, ...]

    @property
    def dilations(self) -> list[int]:
        """Those of what is left: one tap has no distance to another."""
        return [
            dilation if len(taps) > 1 else 1
            for taps, dilation in zip(self.taps, self.problem.dilations, strict=True)
        ]

    @property
    def low(self) -> list[int]:
        """Elements of padding before the image, per dimension; negative where some of the image is unread."""
        problem = self.problem
        offsets = [taps[0] * step for taps, step in zip(self.taps, problem.dilations, strict=True)]
        return [low - offset for low, offset in zip(problem.padding_low, offsets, strict=True)]

    @property
    def high(self) -> list[int]:
        """The same behind the image."""
        problem = self.problem
        return [
            (outputs - 1) * stride + (len(taps) - 1) * dilation + 1 - size - low
            for outputs, stride, taps, dilation, size, low in zip(
                problem.output_size,
                problem.strides,
                self.taps,
                problem.dilations,
                problem.input_size,
                self.low,
                strict=True,
            )
        ]


def _trim(operation: ir.Operation) -> None:
    if ATTRIBUTE_NAME in operation.attributes:
        return
    found = (
        match_weight_gradient(operation) if is_weight_gradient(operation) else match_convolution(operation)
    )
    # An image of unknown size may be larger than expected, and read by all taps.
    if isinstance(found, NoMatch) or found.unknown_sizes:
        return
    problem = found.problem
    trimmed = _Trimmed(problem, problem.reading_taps)
    if trimmed.taps == tuple(map(range, found.kernel_size)):
        return
    with operation.location, ir.InsertionPoint(operation):
        if isinstance(found, WeightGradient):
            result = _build_gradient(found, trimmed)
        else:
            result = _build_convolution(found, trimmed)
    operation.results[0].replace_all_uses_with(result)
    erase_if_unused([operation])


def _build_convolution(convolution: Convolution, trimmed: _Trimmed) -> ir.Value:
    """The convolution with the taps that are left."""
    image, filters = convolution.input, convolution.filter
    if {"g", "c"} <= set(convolution.input_layout):
        position, groups = convolution.spatial_rank + 1, (convolution.groups, convolution.group_inputs)
        image = split(_repadded(_unpadded(merged(image, position)), trimmed), position, groups)
    else:
        image = _repadded(_unpadded(image), trimmed)
    offsets, sizes = [0] * len(convolution.filter_layout), list(filters.type.shape)
    for dimension, taps in enumerate(trimmed.taps):
        position = convolution.filter_layout.index(str(dimension))
        offsets[position], sizes[position] = taps[0], len(taps)
    filters = extracted(filters, offsets, sizes)
    return build_similar(convolution, (image, filters, convolution.init), trimmed.dilations)


def _build_gradient(found: WeightGradient, trimmed: _Trimmed) -> ir.Value:
    """The gradients of the taps that are left, between zeros."""
    result_type = ir.RankedTensorType(found.operation.results[0].type)
    rank, element = found.spatial_rank, result_type.element_type
    rest = list(result_type.shape)[rank:]
    kernel = [len(taps) for taps in trimmed.taps]
    assert found.padding is not None, "taps read padding"
    image = _repadded(found.padding.source, trimmed)
    zeros = zero_filled([*kernel, *rest], element)
    built = build_convolution(
        (
            found.image_layout.translate(IN_SUMS_WORDS),
            found.gradient_layout.translate(IN_SUMS_WORDS),
            found.filter_layout.translate(IN_SUMS_WORDS),
        ),
        # As a convolution it has the dilations of the forward one for strides.
        trimmed.dilations,
        found.strides,
        (image, found.gradient, zeros),
    )
    copy_annotations(found.operation, built.owner.operation)
    low = [taps[0] for taps in trimmed.taps]
    high = [size - taps[-1] - 1 for size, taps in zip(found.kernel_size, trimmed.taps, strict=True)]
    none = [0] * len(rest)
    zero = arith.constant(element, 0.0)
    return padded(built, result_type.shape, [*low, *none], [*high, *none], zero)


def _unpadded(image: ir.Value) -> ir.Value:
    """What is padded to make an image, channels last."""
    padding, _ = match_paddings(image)
    return padding.source


def _repadded(source: ir.Value, trimmed: _Trimmed) -> ir.Value:
    """An image, channels last, with what taps that are left read of its padding, and no more of itself."""
    lows, highs = _around(source, trimmed.low), _around(source, trimmed.high)
    offsets = [max(0, -low) for low in lows]
    unread = [offset + max(0, -high) for offset, high in zip(offsets, highs, strict=True)]
    if any(unread):
        sizes = zip(shape_of(source), unread, strict=True)
        read = [size - number if isinstance(size, int) else size for size, number in sizes]
        source = extracted(source, offsets, read)
    low, high = [max(0, each) for each in lows], [max(0, each) for each in highs]
    if not any((*low, *high)):
        return source
    shape = [
        size + before + after if before or after else size
        for size, before, after in zip(source.type.shape, low, high, strict=True)
    ]
    return padded(source, shape, low, high, arith.constant(source.type.element_type, 0.0))


def _around(image: ir.Value, spatial: Sequence[int]) -> list[int]:
    """Numbers of all dimensions of an image, zero but for the spatial ones."""
    return [0, *spatial, *[0] * (image.type.rank - 1 - len(spatial))]
