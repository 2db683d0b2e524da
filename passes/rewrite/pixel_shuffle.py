"""Channels of channels-last images that become pixels."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.pixel_shuffle import shuffled
from iree.winograd.passes.match.layouts.pixel_shuffle import match_pixel_shuffle
from iree.winograd.passes.rewrite.channels_last import Versions


def rewrite_pixel_shuffle(operation: ir.Operation, versions: Versions) -> ir.Value | None:
    """Build the shuffle that ends with this `tensor.collapse_shape`, of the version of its source.

    Not of what only leaves the program, whose pixels are neighbours there.
    """
    shuffle = match_pixel_shuffle(operation)
    source = None if shuffle is None else versions.get(shuffle.source)
    if shuffle is None or source is None or shuffle.leaves:
        return None
    with ir.InsertionPoint(operation):
        return shuffled(shuffle, source, channels_last=True)
