"""Dimensions that are merged: groups and the channels of each, the pixels of an image."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.navigation import defining_operation, only_user


def merged_layout(layout: str) -> str:
    """`layout` with groups and the channels of each, where these are adjacent, as one dimension `g`."""
    return layout.replace("gc", "g").replace("gf", "g")


def split_source(value: ir.Value, dimension: int) -> ir.Value | None:
    """The tensor that was reshaped to split one of its dimensions into `dimension` and the one after it."""
    definition = defining_operation(value)
    if definition is None or definition.name != "tensor.expand_shape":
        return None
    groups = merging(ir.RankedTensorType(value.type).rank, dimension)
    return definition.operands[0] if reassociation_of(definition) == groups else None


def merging(rank: int, dimension: int, count: int = 2) -> list[list[int]]:
    """The groups of dimensions that merge so many of `rank`, from `dimension` on."""
    merged = list(range(dimension, dimension + count))
    return [merged if d == dimension else [d] for d in range(rank) if d not in merged[1:]]


def merging_pixels(rank: int) -> list[list[int]]:
    """The groups of dimensions that merge all of `rank` but the last, the channels."""
    return [list(range(rank - 1)), [rank - 1]]


def merged_pixels(image: ir.Value) -> ir.Value | None:
    """An image of static shape, channels last, with its pixels merged, where nothing else reads it."""
    user = only_user(image)
    if user is None or user.name != "tensor.collapse_shape" or not image.type.has_static_shape:
        return None
    *_, channels = reassociation_of(user)
    return user.results[0] if len(channels) == 1 else None


def reassociation_of(operation: ir.Operation) -> list[list[int]]:
    return [[dimension.value for dimension in group] for group in operation.attributes["reassociation"]]
