"""Transpositions of images between channels first, as programs may have them, and channels last."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.elementwise import Elementwise, match_elementwise
from iree.winograd.passes.match.navigation import defining_operation, only_user


def to_channels_last(rank: int) -> list[int]:
    """Dimension `i` of a channels-last image is dimension `to_channels_last(rank)[i]` of the other."""
    return [0, *range(2, rank), 1]


def to_channels_first(rank: int) -> list[int]:
    """The inverse permutation."""
    return [0, rank - 1, *range(1, rank - 1)]


def is_transposition(operation: ir.Operation, permutation: list[int]) -> bool:
    return operation.name == "linalg.transpose" and list(operation.attributes["permutation"]) == permutation


def comes_channels_first(image: ir.Value) -> bool:
    """Whether a channels-last image is transposed for the one operation that reads it."""
    operation = defining_operation(image)
    rank = ir.RankedTensorType(image.type).rank
    return (
        operation is not None
        and is_transposition(operation, to_channels_last(rank))
        and only_user(image) is not None
    )


def leaves_channels_first(image: ir.Value) -> bool:
    """Whether nothing but elementwise operations lies between a channels-last image and its transposition.

    The image may have groups and the channels of each as two dimensions before they are one.
    """
    while (user := only_user(image)) is not None:
        if is_transposition(user, to_channels_first(ir.RankedTensorType(image.type).rank)):
            return True
        if user.name != "tensor.collapse_shape" and not _is_elementwise(user, image):
            return False
        image = user.results[0]
    return False


def _is_elementwise(user: ir.Operation, image: ir.Value) -> bool:
    return isinstance(match_elementwise(user), Elementwise) and user.results[0].type == image.type
