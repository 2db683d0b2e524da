"""Write max pooling in three dimensions as pooling in two."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir, linalg, linalg_structure, tensor
from iree.winograd.passes.build.groups import merged, split
from iree.winograd.passes.build.named import build_windowed
from iree.winograd.passes.build.tensors import filled
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.infrastructure.remarks import remark_left
from iree.winograd.passes.match.navigation import defining_operation, walk
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.values.constants import scalar_constant
from iree.winograd.passes.rewrite.erasure import erase_if_unused

PASS_NAME = "winograd-split-pooling"


@register_pass(PASS_NAME)
class SplitPooling:
    """Write max pooling in three dimensions as pooling in two, which IREE vectorizes.

    The maximum of a window is that of the maxima of its planes. Each plane of the image is pooled as an image
    of its own, and then planes are, as rows of an image, where windows span several or skip some. Rewritten
    is pooling of floating-point images of static size, channels last, that begins with one number everywhere.

        %r = linalg.generic ins(%x, %w : ..., tensor<3x2x2xf32>) outs(%lowest) { arith.maximumf }
      becomes
        %0 = tensor.collapse_shape %x [[0, 1], [2], [3], [4]] : ... into tensor<8x28x28x16xf32>
        %1 = linalg.pooling_nhwc_max ins(%0, %w0 : ..., tensor<2x2xf32>) outs(...) -> tensor<8x14x14x16xf32>
        %2 = ... %1 ... tensor<1x8x196x16xf32>
        %3 = linalg.pooling_nhwc_max ins(%2, %w1 : ..., tensor<3x1xf32>) outs(...) -> tensor<1x6x196x16xf32>
        %r = tensor.expand_shape %3 [[0], [1], [2, 3], [4]] : ... into tensor<1x6x14x14x16xf32>
    """

    def run(self, module: ir.Operation) -> None:
        rewrite_each("pooling", list(_poolings(module)), _split)


@dataclass(frozen=True)
class _Pooling:
    """Windows of an image N x D x H x W x C."""

    window: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    lowest: ir.Value
    """The number that each maximum begins with."""


def _poolings(module: ir.Operation) -> Iterator[ir.Operation]:
    """Maxima over windows in three dimensions."""
    for operation in walk(module):
        if not operation.name.startswith("linalg.") or not linalg_structure.isa_convolution_op(operation):
            continue
        body = [view.operation.name for view in operation.regions[0].blocks[0].operations]
        if body == ["arith.maximumf", "linalg.yield"] and operation.results[0].type.rank == 5:
            yield operation


def _match(operation: ir.Operation) -> _Pooling | NoMatch:
    image, window, init = operation.operands
    dimensions = linalg_structure.infer_convolution_dimensions(operation)
    if dimensions is None or list(dimensions.batch) != [0, 4] or list(dimensions.output_image) != [1, 2, 3]:
        return NoMatch(operation, "its channels are not last")
    if not (image.type.has_static_shape and init.type.has_static_shape):
        return NoMatch(operation, "its sizes are known only at run time")
    fill = defining_operation(init)
    if fill is None or fill.name != "linalg.fill" or scalar_constant(fill.operands[0]) is None:
        return NoMatch(operation, "it begins with more than one number")
    return _Pooling(
        tuple(window.type.shape), tuple(dimensions.strides), tuple(dimensions.dilations), fill.operands[0]
    )


def _split(operation: ir.Operation) -> None:
    pooling = _match(operation)
    if isinstance(pooling, NoMatch):
        remark_left(PASS_NAME, pooling)
        return
    image, (batch, planes, *_) = operation.operands[0], operation.operands[0].type.shape
    _, pooled_planes, height, width, _ = operation.results[0].type.shape
    with operation.location, ir.InsertionPoint(operation):
        value = merged(image, 0)
        if pooling.window[1:] != (1, 1) or pooling.strides[1:] != (1, 1):
            value = _pool(value, pooling, (1, 2), (height, width))
        value = split(value, 0, (batch, planes))
        if pooling.window[0] != 1 or pooling.strides[0] != 1:
            value = split(
                _pool(merged(value, 2), pooling, (0,), (pooled_planes, height * width)), 2, (height, width)
            )
    operation.results[0].replace_all_uses_with(value)
    erase_if_unused([operation])


def _pool(
    image: ir.Value, pooling: _Pooling, dimensions: Sequence[int], outputs: tuple[int, int]
) -> ir.Value:
    """Build the maxima of N x H x W x C over windows of one or two of the dimensions, H first."""

    def chosen(values: tuple[int, ...]) -> list[int]:
        return [*(values[dimension] for dimension in dimensions), 1][:2]

    element = image.type.element_type
    batch, *_, channels = image.type.shape
    lowest = filled(pooling.lowest, [batch, *outputs, channels], element)
    window = tensor.empty(chosen(pooling.window), element)
    strides, dilations = chosen(pooling.strides), chosen(pooling.dilations)
    return build_windowed(linalg.PoolingNhwcMaxOp, (image, window), lowest, strides, dilations)
