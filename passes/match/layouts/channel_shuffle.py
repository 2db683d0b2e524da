"""Channel shuffles of channels-first images, as ShuffleNet has them."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.groups import split_source
from iree.winograd.passes.match.navigation import defining_operation
from iree.winograd.passes.match.sizes import is_dynamic


@dataclass(frozen=True)
class ChannelShuffle:
    """Channel `c` of group `g` of `source`, N x C x H..., becomes channel `g` of group `c` of the result."""

    source: ir.Value
    groups: int
    group_channels: int


def match_channel_shuffle(collapse: ir.Operation) -> ChannelShuffle | None:
    """The shuffle that ends with this `tensor.collapse_shape`; None where it ends something else.

    Of one group, as ShuffleNet's may have, merging dimensions may be written as that of other ones.
    """
    transposition = defining_operation(collapse.operands[0])
    if transposition is None or transposition.name != "linalg.transpose":
        return None
    rank = len(transposition.attributes["permutation"])
    exchange = [0, 2, 1, *range(3, rank)]
    source = split_source(transposition.operands[0], 1)
    if list(transposition.attributes["permutation"]) != exchange or source is None:
        return None
    # As many elements in the same order: what was merged follows from the sizes.
    if ir.RankedTensorType(collapse.results[0].type).shape != ir.RankedTensorType(source.type).shape:
        return None
    _, groups, group_channels, *_ = ir.RankedTensorType(transposition.operands[0].type).shape
    if is_dynamic(groups) or is_dynamic(group_channels):
        return None
    return ChannelShuffle(source, groups, group_channels)
