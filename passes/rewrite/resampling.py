"""Resampling of channels-last images."""

from __future__ import annotations

from math import prod

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.resampling import resampled
from iree.winograd.passes.match.image_layout import to_channels_last
from iree.winograd.passes.match.resampling import Resampling, match_resampling
from iree.winograd.passes.rewrite.channels_last import Versions

_EXITS = ("func.return", "hal.tensor.export", "util.return")


def rewrite_resampling(operation: ir.Operation, versions: Versions) -> ir.Value | None:
    """Build what this `linalg.generic` makes of an image by resampling it, of the version of that image.

    Not where the result only leaves the program and is larger: then its source is what is to be transposed.
    """
    match = match_resampling(operation)
    if not isinstance(match, Resampling) or match.source not in versions:
        return None
    result = operation.results[0]
    leaves = all(use.owner.operation.name in _EXITS for use in result.uses)
    if leaves and prod(result.type.shape) > prod(match.source.type.shape):
        return None
    order = to_channels_last(result.type.rank)
    axes = {order.index(dimension): axis for dimension, axis in match.axes.items()}
    with ir.InsertionPoint(operation):
        return resampled(versions[match.source], axes)
