"""Grouped convolutions of channels-last images, with groups and channels in one dimension.

A linalg convolution has a dimension of its own for groups, so that images are reshaped around it.
"""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir, tensor
from iree.winograd.passes.build.convolution import build_convolution
from iree.winograd.passes.build.groups import merged, split
from iree.winograd.passes.build.transpositions import transposed
from iree.winograd.passes.infrastructure.algorithm import copy_annotations
from iree.winograd.passes.match.convolutions.convolution import Convolution, match_convolution
from iree.winograd.passes.match.groups import merged_layout, reassociation_of
from iree.winograd.passes.match.navigation import defining_operation
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.rewrite.erasure import erase_if_unused


def rewrite_grouped(operation: ir.Operation) -> None:
    """Give a grouped convolution channels-last operands, which are reshaped and transposed around it.

    Images of N x g x C/g x H... or any other layout are read as N x H... x C, where another rewrite may find
    a version of that layout. Leaves convolutions without groups, depthwise and channels-last ones alone.
    """
    convolution = match_convolution(operation)
    if isinstance(convolution, NoMatch) or convolution.is_channels_last:
        return
    if not all("g" in layout for layout in _layouts(convolution)) or "c" not in convolution.input_layout:
        return
    input_layout, filter_layout, output_layout = layouts = convolution.channels_last_layouts
    with operation.location, ir.InsertionPoint(operation):
        image = regrouped(convolution.input, convolution.input_layout, input_layout)
        weights = transposed(
            convolution.filter, [convolution.filter_layout.index(letter) for letter in filter_layout]
        )
        init = regrouped(convolution.init, convolution.output_layout, output_layout)
        rewritten = build_convolution(
            layouts, convolution.strides, convolution.dilations, (image, weights, init)
        )
        result = regrouped(rewritten, output_layout, convolution.output_layout)
    copy_annotations(operation, rewritten.owner)
    operation.results[0].replace_all_uses_with(result)
    erase_if_unused([operation])
    fold_merged(result)


def fold_merged(value: ir.Value) -> None:
    """Make users that merge dimensions that `value` was made by splitting read what was split."""
    definition = defining_operation(value)
    if definition is None or definition.name != "tensor.expand_shape":
        return
    splits = reassociation_of(definition)
    position = {dimension: index for index, group in enumerate(splits) for dimension in group}
    for user in list({use.owner.operation for use in value.uses}):
        if user.name != "tensor.collapse_shape":
            continue
        merges = [sorted({position[dimension] for dimension in group}) for group in reassociation_of(user)]
        if sum(map(len, merges)) != len(splits):
            continue
        source = definition.operands[0]
        with user.location, ir.InsertionPoint(user):
            if len(merges) < len(splits):
                source = tensor.collapse_shape(user.results[0].type, source, merges)
        user.results[0].replace_all_uses_with(source)
        user.erase()
    erase_if_unused([definition])


def _layouts(convolution: Convolution) -> tuple[str, str, str]:
    return convolution.input_layout, convolution.filter_layout, convolution.output_layout


def regrouped(value: ir.Value, layout: str, target: str) -> ir.Value:
    """Build `value` transposed from `layout` to `target`, in which groups are next to a letter of theirs.

    Where they are next to it in `layout`, too, the transposition is that of an image with one dimension for
    both.
    """
    if layout == target:
        return value
    image_layout, image_target = merged_layout(layout), merged_layout(target)
    if image_layout == layout:
        return transposed(value, [layout.index(letter) for letter in target])
    group = layout.index("g")
    sizes = tuple(ir.RankedTensorType(value.type).shape[group : group + 2])
    moved = transposed(merged(value, group), [image_layout.index(letter) for letter in image_target])
    return split(moved, target.index("g"), sizes)
