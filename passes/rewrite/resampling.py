"""Resampling of channels-last images."""

from __future__ import annotations

from math import prod

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.resampling import resampled
from iree.winograd.passes.build.transpositions import transposed
from iree.winograd.passes.match.convolutions.convolution_form import is_convolution
from iree.winograd.passes.match.layouts.image_layout import to_channels_last
from iree.winograd.passes.match.navigation import EXITS
from iree.winograd.passes.match.pixels.resampling import Resampling, match_resampling
from iree.winograd.passes.match.values.conversions import is_narrowing, rounding_type
from iree.winograd.passes.rewrite.channels_last import Versions

_KERNEL = "flow.dispatch"
"""What reads an image in that layout, too."""


def rewrite_resampling(operation: ir.Operation, versions: Versions) -> ir.Value | None:
    """Build what this `linalg.generic` makes of an image by resampling it, of the version of that image.

    The smaller image is the one to be transposed: not here where a larger result only leaves the program, or
    is read by a kernel as it is, but here where a convolution reads it, even if there is no version yet.
    """
    match = match_resampling(operation)
    if not isinstance(match, Resampling):
        return None
    source, result = match.source, operation.results[0]
    order = to_channels_last(result.type.rank)
    is_larger = prod(result.type.shape) > prod(source.type.shape)
    with ir.InsertionPoint(operation):
        if source not in versions:
            if not is_larger or not _is_convolved(result):
                return None
            versions[source] = transposed(source, order)
        elif is_larger and all(_leaves(use.owner.operation) for use in result.uses):
            return None
        axes = {order.index(dimension): axis for dimension, axis in match.axes.items()}
        return resampled(versions[source], axes)


def _leaves(user: ir.Operation) -> bool:
    """Whether an image that is read so, maybe rounded to half precision first, keeps its layout."""
    if is_narrowing(user) or rounding_type(user) is not None:
        return all(_leaves(use.owner.operation) for use in user.results[0].uses)
    return user.name in (*EXITS, _KERNEL)


def _is_convolved(image: ir.Value) -> bool:
    """Whether convolutions read an image, which may be padded, and nothing else does."""
    users = [use.owner.operation for use in image.uses]
    return bool(users) and all(
        is_convolution(each) or (each.name == "tensor.pad" and _is_convolved(each.results[0]))
        for each in users
    )
