"""Channel shuffles of channels-first images, as ShuffleNet has them."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.groups import merging, reassociation_of, split_source
from iree.winograd.passes.match.navigation import defining_operation
from iree.winograd.passes.match.sizes import is_dynamic


@dataclass(frozen=True)
class ChannelShuffle:
    """Channel `c` of group `g` of `source`, N x C x H..., becomes channel `g` of group `c` of the result."""

    source: ir.Value
    groups: int
    group_channels: int


def match_channel_shuffle(collapse: ir.Operation) -> ChannelShuffle | None:
    """The shuffle that ends with this `tensor.collapse_shape`; None where it ends something else."""
    transposition = defining_operation(collapse.operands[0])
    if transposition is None or transposition.name != "linalg.transpose":
        return None
    rank = len(transposition.attributes["permutation"])
    exchange = [0, 2, 1, *range(3, rank)]
    if list(transposition.attributes["permutation"]) != exchange or reassociation_of(collapse) != merging(
        rank, 1
    ):
        return None
    source = split_source(transposition.operands[0], 1)
    _, groups, group_channels, *_ = ir.RankedTensorType(transposition.operands[0].type).shape
    if source is None or is_dynamic(groups) or is_dynamic(group_channels):
        return None
    return ChannelShuffle(source, groups, group_channels)
