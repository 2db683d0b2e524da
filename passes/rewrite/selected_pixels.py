"""Selections of rows and columns of channels-last images."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.selected_pixels import selected
from iree.winograd.passes.build.tensors import size_of
from iree.winograd.passes.match.layouts.image_layout import to_channels_last
from iree.winograd.passes.match.pixels.selected_pixels import match_selected_pixels
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.passes.rewrite.channels_last import Versions


def rewrite_selected_pixels(operation: ir.Operation, versions: Versions) -> ir.Value | None:
    """Build what selects rows or columns of an image of sizes known only at run time, of its version."""
    match = match_selected_pixels(operation)
    if match is None or match.image not in versions or not any(map(is_dynamic, match.result.type.shape)):
        return None
    kept = [d for d in range(match.image.type.rank) if d != match.dimension]
    if any(match.image.type.shape[d] != match.result.type.shape[d] for d in kept):
        return None
    dimension = to_channels_last(match.image.type.rank).index(match.dimension)
    with ir.InsertionPoint(operation):
        size = size_of(match.result, match.dimension)
        return selected(versions[match.image], dimension, match.positions, size)
