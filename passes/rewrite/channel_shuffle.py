"""Channel shuffles of channels-last images."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.groups import merged, split
from iree.winograd.passes.build.transpositions import transposed
from iree.winograd.passes.match.layouts.channel_shuffle import match_channel_shuffle
from iree.winograd.passes.rewrite.channels_last import Versions


def rewrite_channel_shuffle(operation: ir.Operation, versions: Versions) -> ir.Value | None:
    """Build the shuffle that ends with this `tensor.collapse_shape`, of the version of its source.

    Groups and the channels of each then change places within each pixel; those of a single group stay.
    """
    shuffle = match_channel_shuffle(operation)
    source = None if shuffle is None else versions.get(shuffle.source)
    if shuffle is None or source is None:
        return None
    if 1 in (shuffle.groups, shuffle.group_channels):
        return source
    channels = source.type.rank - 1
    with ir.InsertionPoint(operation):
        divided = split(source, channels, (shuffle.groups, shuffle.group_channels))
        return merged(transposed(divided, [*range(channels), channels + 1, channels]), channels)
