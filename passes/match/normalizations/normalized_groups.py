"""Images whose groups are normalized by their moments, and what finds these."""

from __future__ import annotations

from collections.abc import Iterator

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.elementwise import Elementwise, match_elementwise
from iree.winograd.passes.match.navigation import KEEPING_ELEMENTS, defining_operation, only_user, readers
from iree.winograd.passes.match.normalizations.image_sum import (
    SquaredDeviations,
    SummedExtents,
    match_squared_deviations,
)
from iree.winograd.passes.match.normalizations.normalization_factors import match_normalization_factors
from iree.winograd.passes.match.normalizations.reduced import match_reduced
from iree.winograd.passes.match.normalizations.rows import with_body
from iree.winograd.passes.match.reductions import is_reduction


def is_statistic(user: ir.Operation, value: ir.Value) -> bool:
    """Whether nothing is made of an image but sums, and sums of squared differences.

    These are read as they are in f32: kernels of sums read what is widened for them.
    """
    if user.name in KEEPING_ELEMENTS:
        moved = user.results[0]
        users = readers(moved)
        return bool(users) and all(is_statistic(each, moved) for each in users)
    if is_reduction(user):
        return list(user.operands).count(value) == 1 and match_reduced(user) is not None
    return list(user.operands).count(value) == 1 and _squared_deviations_by(user) is not None


def groups_of(image: ir.Value) -> Iterator[SummedExtents]:
    """The groups by whose moments an image is normalized, for each way in which it is."""
    for user in readers(image):
        if user.name in KEEPING_ELEMENTS:
            yield from groups_of(user.results[0])
            continue
        found = _squared_deviations_by(user)
        if found is not None and match_normalization_factors(found) is not None:
            yield found.sums.extents


def groups_normalized_by(operation: ir.Operation) -> Iterator[SummedExtents]:
    """Those of the image that an elementwise operation, or those before it, compute what they do of."""
    elementwise = match_elementwise(operation)
    if not isinstance(elementwise, Elementwise):
        return
    image = elementwise.inputs[0]
    yield from groups_of(image)
    before = defining_operation(image)
    if before is not None:
        yield from groups_normalized_by(before)


def _squared_deviations_by(subtraction: ir.Operation) -> SquaredDeviations | None:
    """The sum of the squares of what an operation subtracts a mean from; None of any other operation."""
    if with_body(subtraction, ["arith.subf"]) is None:
        return None
    squares = only_user(subtraction.results[0])
    if squares is None or with_body(squares, ["arith.mulf"]) is None:
        return None
    reduction = only_user(squares.results[0])
    return None if reduction is None else match_squared_deviations(reduction)
