"""Channels that become pixels, of images of either layout."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.groups import merged_to_counts, split
from iree.winograd.passes.build.transpositions import transposed
from iree.winograd.passes.match.layouts.pixel_shuffle import PixelShuffle


def shuffled(shuffle: PixelShuffle, image: ir.Value, *, channels_last: bool) -> ir.Value:
    """Build what a shuffle makes of `image`, its source in either layout, in the same layout."""
    spatial_rank = len(shuffle.pixel)
    channels, first_pixel = (spatial_rank + 1, 1) if channels_last else (1, spatial_rank + 2)
    digits = [channels + number for number in range(len(shuffle.digits))]
    pixels = [[first_pixel + dimension, digits[number]] for dimension, number in enumerate(shuffle.pixel)]
    channel = [digits[shuffle.channel]]
    groups = [[0], *pixels, channel] if channels_last else [[0], channel, *pixels]
    divided = split(image, channels, shuffle.digits)
    moved = transposed(divided, [each for group in groups for each in group])
    return merged_to_counts(moved, [len(group) for group in groups])
