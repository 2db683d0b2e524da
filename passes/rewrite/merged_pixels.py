"""Pixels of images that are merged to one dimension, as tokens are, and split again."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir, tensor
from iree.winograd.passes.build.tensors import size_of
from iree.winograd.passes.match.groups import reassociation_of
from iree.winograd.passes.match.layouts.image_layout import to_channels_last
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.passes.rewrite.channels_last import Versions


def rewrite_merged_pixels(operation: ir.Operation, versions: Versions) -> ir.Value | None:
    """Merge the pixels of the version of what a `tensor.collapse_shape` merges those of.

    Without it the transposition that makes tokens of an image, `1 x C x HW` to `1 x HW x C`, would look like
    one of a channels-last sound, and all that follows would have tokens for channels.
    """
    version = versions.get(operation.operands[0])
    groups = _groups_of_version(reassociation_of(operation))
    if version is None or groups is None:
        return None
    with ir.InsertionPoint(operation):
        return tensor.collapse_shape(_type_of_version(operation.results[0]), version, groups)


def rewrite_split_pixels(operation: ir.Operation, versions: Versions) -> ir.Value | None:
    """Split the pixels of the version of what a `tensor.expand_shape` splits those of."""
    version = versions.get(operation.operands[0])
    groups = _groups_of_version(reassociation_of(operation))
    if version is None or groups is None:
        return None
    type_ = _type_of_version(operation.results[0])
    if any(map(is_dynamic, type_.shape[1:])):
        return None
    with ir.InsertionPoint(operation):
        batch = [size_of(version, 0)] if is_dynamic(type_.shape[0]) else []
        return tensor.expand_shape(type_, version, groups, batch, list(type_.shape))


def _groups_of_version(groups: list[list[int]]) -> list[list[int]] | None:
    """Groups of channels-last dimensions; None unless the batch and the channels are in none with others."""
    if len(groups) < 3 or groups[:2] != [[0], [1]]:
        return None
    rank = groups[-1][-1] + 1
    return [[0], *([dimension - 1 for dimension in group] for group in groups[2:]), [rank - 1]]


def _type_of_version(value: ir.Value) -> ir.RankedTensorType:
    type_ = ir.RankedTensorType(value.type)
    shape = [type_.shape[dimension] for dimension in to_channels_last(type_.rank)]
    return ir.RankedTensorType.get(shape, type_.element_type)
