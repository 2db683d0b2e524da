"""Rewrite transposed convolutions to convolutions of the phases of their output."""

from __future__ import annotations

from collections.abc import Sequence

from iree.winograd.dialect.attributes import sizes_attribute
from iree.winograd.dialect.bindings import arith, ir, linalg, tensor
from iree.winograd.passes.build.convolution import build_convolution
from iree.winograd.passes.build.generic import build_sum
from iree.winograd.passes.build.groups import merged, split
from iree.winograd.passes.build.named import build_named
from iree.winograd.passes.build.phase_image import phase_image
from iree.winograd.passes.build.slices import extracted, inserted
from iree.winograd.passes.build.tensors import index_constant, shape_of, size_of, zero_filled
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.infrastructure.remarks import remark_applied, remark_left
from iree.winograd.passes.match.convolutions.convolution import Convolution
from iree.winograd.passes.match.convolutions.convolution_form import convolutions
from iree.winograd.passes.match.convolutions.transposed_convolution import (
    DimensionPhase,
    TransposedConvolution,
    match_transposed,
)
from iree.winograd.passes.match.elementwise import broadcast_source
from iree.winograd.passes.match.groups import merged_layout
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.unknown_sizes.expected_size import EXPECTED_SIZE_ATTRIBUTE_NAME
from iree.winograd.passes.match.unknown_sizes.size_expressions import SizeExpressions
from iree.winograd.passes.match.values.constants import is_constant, is_zero
from iree.winograd.passes.rewrite.erasure import erase_if_unused
from iree.winograd.passes.rewrite.grouped import fold_merged
from iree.winograd.passes.rewrite.inserted_parts import apply_to_parts

PASS_NAME = "winograd-split-transposed"


@register_pass(PASS_NAME)
class SplitTransposed:
    """Rewrite transposed convolutions to convolutions of the phases of their output.

    A transposed convolution of stride s arrives as a convolution of an image with s - 1 zeros between its
    elements, so that most products are with zeros. The outputs o = s*q + phase, for each phase below s, read
    only every s-th position: they are a convolution of the image itself with the taps that meet its elements,

        out[s*q + phase] = sum over k of  image[q + offset + dilation*k] * filter[first + step*k]

    where image is zero outside. With `spread` elements d apart for a dilation of the filter, `step` is
    s / gcd(s, d) and `dilation` d / gcd(s, d). A phase that meets no element is what the convolution is
    added to; a constant is added at the end then: IREE 3.13 gives one memory to several such convolutions
    that are inserted into the same one. Where there is no such phase, elementwise operations that follow
    are applied to each.

        %z = tensor.insert_slice %x into %zeros[0, 0, 1] [1, 8, 9] [1, 1, 2] : ... into tensor<1x8x20xf32>
        %r = linalg.conv_1d_ncw_fcw ins(%z, %w : ..., tensor<4x8x3xf32>) outs(%y : tensor<1x4x18xf32>)
      becomes
        %even = linalg.generic ins(%x, %w[.., 1:2]) outs(%zeros : tensor<1x4x9xf32>)   one tap
        %p = tensor.pad %x low[0, 0, 0] high[0, 0, 1]
        %odd = linalg.generic ins(%p, %w[.., 0:3:2]) outs(%zeros : tensor<1x4x9xf32>)  two taps
        %s = tensor.insert_slice %even into %empty[0, 0, 0] [1, 4, 9] [1, 1, 2]
        %r = tensor.insert_slice %odd into %s[0, 0, 1] [1, 4, 9] [1, 1, 2]
    """

    def run(self, module: ir.Operation) -> None:
        rewrite_each("convolution", list(convolutions(module)), _split)


def _split(operation: ir.Operation) -> None:
    transposed = match_transposed(operation, lambda each: SizeExpressions.of(each.parent.operation))
    if isinstance(transposed, NoMatch):
        remark_left(PASS_NAME, transposed)
    if not isinstance(transposed, TransposedConvolution):
        return
    with operation.location, ir.InsertionPoint(operation):
        inserted = _build_phases(transposed)
        result = _in_groups(transposed.convolution, inserted)
    phases = len(transposed.phases)
    remark_applied(operation, PASS_NAME, f"a transposed convolution became one per phase: {phases}")
    operation.results[0].replace_all_uses_with(result)
    erase_if_unused([operation])
    fold_merged(result)
    apply_to_parts(inserted)


def _in_groups(convolution: Convolution, outputs: ir.Value) -> ir.Value:
    """`outputs`, with one dimension for groups and channels, in the layout of the convolution's result."""
    layout = merged_layout(convolution.output_layout)
    if layout == convolution.output_layout:
        return outputs
    return split(outputs, layout.index("g"), _group_sizes(convolution))


def _build_phases(transposed: TransposedConvolution) -> ir.Value:
    """Every phase's outputs, inserted where they belong, groups and channels in one dimension."""
    convolution = transposed.convolution
    layout = merged_layout(convolution.output_layout)
    is_split = layout != convolution.output_layout
    init = merged(convolution.init, layout.index("g")) if is_split else convolution.init
    added_last = None
    if not transposed.covers_output and _is_constant_broadcast(init):
        init, added_last = zero_filled(shape_of(init), convolution.element_type), init
    result = init
    if transposed.covers_output:
        result = tensor.empty(shape_of(init), convolution.element_type)
    for phase in transposed.phases:
        addend = _phase_init(init, layout, phase, transposed)
        sizes = _group_sizes(convolution)
        if is_split:
            addend = split(addend, layout.index("g"), sizes)
        outputs = build_convolution(
            (convolution.input_layout, convolution.filter_layout, convolution.output_layout),
            [1] * convolution.spatial_rank,
            [dimension.dilation for dimension in phase],
            (phase_image(transposed, phase), _phase_filter(convolution, phase), addend),
        )
        if convolution.unknown_sizes:
            read = [each.outputs + each.dilation * (each.taps - 1) for each in phase]
            outputs.owner.attributes[EXPECTED_SIZE_ATTRIBUTE_NAME] = sizes_attribute(read)
        if is_split:
            outputs = merged(outputs, layout.index("g"))
        offsets, steps = [0] * len(layout), [1] * len(layout)
        for d, dimension in enumerate(phase):
            offsets[layout.index(str(d))] = dimension.index
            steps[layout.index(str(d))] = transposed.strides[d]
        result = inserted(outputs, result, offsets, shape_of(outputs), steps)
    return result if added_last is None else build_sum([result, added_last])


def _is_constant_broadcast(init: ir.Value) -> bool:
    source, _ = broadcast_source(init, ir.AffineMap.get_identity(ir.RankedTensorType(init.type).rank))
    return is_constant(source) and not is_zero(init)


def _phase_filter(convolution: Convolution, phase: Sequence[DimensionPhase]) -> ir.Value:
    """The taps that the phase meets."""
    shape = list(convolution.filter.type.shape)
    offsets, steps = [0] * len(shape), [1] * len(shape)
    for d, dimension in enumerate(phase):
        axis = convolution.filter_layout.index(str(d))
        offsets[axis], shape[axis], steps[axis] = dimension.first_tap, dimension.taps, dimension.tap_step
    return extracted(convolution.filter, offsets, shape, steps)


def _phase_init(
    init: ir.Value, layout: str, phase: Sequence[DimensionPhase], transposed: TransposedConvolution
) -> ir.Value:
    """What is added to the phase's outputs: zeros and broadcasts along the image are built again."""
    spatial = [layout.index(str(d)) for d in range(len(phase))]
    sizes = shape_of(init)
    for d, (axis, dimension) in enumerate(zip(spatial, phase, strict=True)):
        sizes[axis] = _outputs_along(transposed, d, dimension)
    element_type = init.type.element_type
    if is_zero(init):
        return zero_filled(sizes, element_type)
    source, read = broadcast_source(init, ir.AffineMap.get_identity(len(layout)))
    positions = [index.position for index in read.results if isinstance(index, ir.AffineDimExpr)]
    if len(positions) == len(read.results) and positions == sorted(set(positions) - set(spatial)):
        added = [d for d in range(len(layout)) if d not in positions]
        return build_named(linalg.BroadcastOp, source, tensor.empty(sizes, element_type), dimensions=added)
    offsets, steps = [0] * len(layout), [1] * len(layout)
    for axis, dimension, stride in zip(spatial, phase, transposed.strides, strict=True):
        offsets[axis], steps[axis] = dimension.index, stride
    return extracted(init, offsets, sizes, steps)


def _outputs_along(transposed: TransposedConvolution, d: int, dimension: DimensionPhase) -> int | ir.Value:
    """The outputs of a phase: as many as the image has elements, and a number of them more or less."""
    if d not in transposed.convolution.unknown_sizes:
        return dimension.outputs
    size = size_of(transposed.image, merged_layout(transposed.convolution.input_layout).index(str(d)))
    more = dimension.outputs - transposed.image_size[d]
    return arith.addi(size, index_constant(more)) if more and not isinstance(size, int) else size


def _group_sizes(convolution: Convolution) -> tuple[int, int]:
    return convolution.groups, convolution.output_channels // convolution.groups
