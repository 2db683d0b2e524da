"""Convolutions that are left to IREE at several times the cost, for a reason that a user can end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir

from .layer import Layer


@dataclass(frozen=True)
class CostlyReason:
    """Why convolutions are left, and what to do about it."""

    reason: str
    remedy: str


_UNKNOWN_SIZES = CostlyReason(
    "with sizes other than the batch that are known only at run time",
    "compile a program for each size that is used: give the model inputs of that size, without dynamic sizes",
)


def costly_reason(layer: Layer) -> CostlyReason | None:
    """Why IREE's own code takes more than twice as long for a convolution that is left to it, if it does.

    It takes up to 50 times as long where sizes aren't known. Halves are none of it: CPUs compute in f32.
    """
    if layer.kind != "convolution":
        return None
    types = [operand.type for operand in layer.operation.operands]
    if not all(isinstance(type_, ir.RankedTensorType) for type_ in types):
        return None
    return _UNKNOWN_SIZES if _has_unknown_sizes(types) else None


def _has_unknown_sizes(types: Sequence[ir.RankedTensorType]) -> bool:
    # The batch is the first dimension of an image in all layouts that models have.
    image, filters = types[:2]
    return any(map(image.is_dynamic_dim, range(1, image.rank))) or not filters.has_static_shape


def describe(left: Sequence[CostlyReason], count: int) -> str:
    """What a program's user is told of `count` convolutions, of which some are `left`."""
    parts = [f"{number} {each.reason} ({each.remedy})" for each, number in Counter(left).items()]
    return (
        f"{len(left)} of {count} convolution(s) left to IREE's own code, which takes several times as long as"
        f" the kernels of this project: {'; '.join(parts)}"
    )
