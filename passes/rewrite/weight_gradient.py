"""Gradients of filters in the layouts that kernels have: channels-last images, filters R... x C/g x K."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.convolution import build_convolution
from iree.winograd.passes.build.tensors import zero_filled
from iree.winograd.passes.infrastructure.algorithm import copy_annotations
from iree.winograd.passes.match.convolutions.weight_gradient import IN_SUMS_WORDS, match_weight_gradient
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.rewrite.erasure import erase_if_unused
from iree.winograd.passes.rewrite.grouped import fold_merged, regrouped


def rewrite_weight_gradient(operation: ir.Operation) -> ir.Operation:
    """Give a weight gradient channels-last images and result, transposed and reshaped around it.

    Returns what is one then: `operation` itself, if it has no supported form or these layouts already.
    """
    found = match_weight_gradient(operation)
    if isinstance(found, NoMatch) or found.is_channels_last:
        return operation
    image_layout, gradient_layout, filter_layout = found.channels_last_layouts
    with operation.location, ir.InsertionPoint(operation):
        image = regrouped(found.image, found.image_layout, image_layout)
        gradient = regrouped(found.gradient, found.gradient_layout, gradient_layout)
        shape = [
            operation.results[0].type.shape[found.filter_layout.index(letter)] for letter in filter_layout
        ]
        zeros = zero_filled(shape, image.type.element_type)
        # As a convolution it has the dilations of the forward one for strides.
        rewritten = build_convolution(
            (
                image_layout.translate(IN_SUMS_WORDS),
                gradient_layout.translate(IN_SUMS_WORDS),
                filter_layout.translate(IN_SUMS_WORDS),
            ),
            found.dilations,
            found.strides,
            (image, gradient, zeros),
        )
        result = regrouped(rewritten, filter_layout, found.filter_layout)
    copy_annotations(operation, rewritten.owner)
    operation.results[0].replace_all_uses_with(result)
    erase_if_unused([operation])
    fold_merged(result)
    return rewritten.owner.operation
