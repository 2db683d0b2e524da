"""Convolutions without the spatial dimensions that hold one element."""

from __future__ import annotations

from collections.abc import Sequence

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.convolution import build_convolution
from iree.winograd.passes.build.groups import merged, split
from iree.winograd.passes.build.slices import padded
from iree.winograd.passes.build.tensors import size_of, zero_filled
from iree.winograd.passes.infrastructure.algorithm import ATTRIBUTE_NAME
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.convolutions.convolution import Convolution, match_convolution
from iree.winograd.passes.match.convolutions.convolution_form import convolutions
from iree.winograd.passes.match.navigation import defining_operation
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.values.constants import is_zero
from iree.winograd.passes.rewrite.erasure import erase_if_unused
from iree.winograd.passes.rewrite.grouped import fold_merged


@register_pass("winograd-drop-unit-dimensions")
class DropUnitDimensions:
    """Write convolutions without the spatial dimensions that hold one element.

    torch-mlir writes a depthwise convolution of a sound as that of an image one pixel wide. Kernels compute
    neighbours of the last dimension together, so that they would take each output by itself. Dimensions that
    have one element in input, filter and output are dropped, as long as another is left and nothing but
    reshapes uses the output; these and padding go with them. Reshapes in other places would part the
    convolution from what could be its epilogue. A convolution annotated with an algorithm keeps its
    dimensions.

        %e = tensor.expand_shape %x [[0], [1], [2, 3]] : tensor<1x64x90xf32> into tensor<1x64x90x1xf32>
        %p = tensor.pad %e low[0, 0, 4, 0] high[0, 0, 4, 0] : ... to tensor<1x64x98x1xf32>
        %c = linalg.depthwise_conv_2d_nchw_chw ins(%p, %w : ..., tensor<64x9x1xf32>) outs(%zeros)
        %r = tensor.collapse_shape %c [[0], [1], [2, 3]] : tensor<1x64x90x1xf32> into tensor<1x64x90xf32>
      becomes
        %p = tensor.pad %x low[0, 0, 4] high[0, 0, 4] : tensor<1x64x90xf32> to tensor<1x64x98xf32>
        %v = tensor.collapse_shape %w [[0], [1, 2]] : tensor<64x9x1xf32> into tensor<64x9xf32>
        %r = linalg.generic ins(%p, %v) outs(%zeros) { arith.mulf, arith.addf }
    """

    def run(self, module: ir.Operation) -> None:
        rewrite_each("convolution", list(convolutions(module)), _drop_all)


def _drop_all(operation: ir.Operation) -> None:
    if ATTRIBUTE_NAME in operation.attributes:
        return
    convolution = match_convolution(operation)
    while not isinstance(convolution, NoMatch) and (dimension := _unit_dimension(convolution)) is not None:
        with convolution.operation.location, ir.InsertionPoint(convolution.operation):
            dropped = _drop(convolution, dimension)
        convolution = match_convolution(dropped)


def _unit_dimension(convolution: Convolution) -> int | None:
    """The last spatial dimension that may be dropped."""
    sizes = zip(convolution.input_size, convolution.kernel_size, convolution.output_size, strict=True)
    units = [
        dimension
        for dimension, each in enumerate(sizes)
        if each == (1, 1, 1) and dimension not in convolution.unknown_sizes
    ]
    users = [use.owner.operation.name for use in convolution.operation.results[0].uses]
    if not units or convolution.spatial_rank == 1 or set(users) != {"tensor.collapse_shape"}:
        return None
    return units[-1]


def _drop(convolution: Convolution, dimension: int) -> ir.Operation:
    """Build the convolution without a dimension, and replace the former one."""
    letter = str(dimension)
    result = build_convolution(
        (
            _layout_without(convolution.input_layout, dimension),
            _layout_without(convolution.filter_layout, dimension),
            _layout_without(convolution.output_layout, dimension),
        ),
        _others(convolution.strides, dimension),
        _others(convolution.dilations, dimension),
        (
            _without(convolution.input, convolution.input_layout.index(letter)),
            _without(convolution.filter, convolution.filter_layout.index(letter)),
            _without(convolution.init, convolution.output_layout.index(letter)),
        ),
    )
    first = max(convolution.output_layout.index(letter) - 1, 0)
    shape = ir.RankedTensorType(convolution.operation.results[0].type).shape
    restored = split(result, first, (shape[first], shape[first + 1]))
    convolution.operation.results[0].replace_all_uses_with(restored)
    erase_if_unused([convolution.operation])
    fold_merged(restored)
    return result.owner.operation


def _without(value: ir.Value, position: int) -> ir.Value:
    """Build `value` without a dimension of size 1; padding of the others, and zeros, are built again."""
    definition = defining_operation(value)
    if definition is not None and definition.name == "tensor.pad" and len(definition.operands) == 1:
        return _pad_without(definition, position)
    if is_zero(value):
        sizes = [size_of(value, d) for d in range(value.type.rank) if d != position]
        return zero_filled(sizes, value.type.element_type)
    return merged(value, max(position - 1, 0))


def _pad_without(pad: ir.Operation, position: int) -> ir.Value:
    (element,) = pad.regions[0].blocks[0].operations[-1].operation.operands
    low, high = (list(pad.attributes[name]) for name in ("static_low", "static_high"))
    element_definition = defining_operation(element)
    outside = element_definition is not None and element_definition.block != pad.regions[0].blocks[0]
    if low[position] or high[position] or not outside:
        return merged(pad.results[0], max(position - 1, 0))
    former = ir.RankedTensorType(pad.results[0].type)
    return padded(
        _without(pad.operands[0], position),
        _others(former.shape, position),
        _others(low, position),
        _others(high, position),
        element,
    )


def _layout_without(layout: str, dimension: int) -> str:
    """`layout` without a spatial dimension; those after it are numbered anew."""
    kept = layout.replace(str(dimension), "")
    return "".join(
        str(int(letter) - 1) if letter.isdigit() and int(letter) > dimension else letter for letter in kept
    )


def _others(values: Sequence[int], position: int) -> list[int]:
    return [value for index, value in enumerate(values) if index != position]
