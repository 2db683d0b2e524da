"""Which layers a user allows to be rewritten, and in which precision."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from fnmatch import fnmatchcase

from iree.winograd.dialect.bindings import ir

from .precision import PRECISIONS, Precision

_NUMBERS = re.compile(r"(\d+)(?:-(\d+))?")


def is_layer_allowed(
    allow: Collection[str], deny: Collection[str], number: int | None, operation: ir.Operation
) -> bool:
    """Whether patterns as in `WinogradOptions` let a layer be rewritten.

    `number` is that of a convolution, in program order, and None for what is none.
    """
    if allow and not any(matches_layer(pattern, number, operation) for pattern in allow):
        return False
    return not any(matches_layer(pattern, number, operation) for pattern in deny)


def layer_precision(
    precision: Precision, layer_precisions: Sequence[str], number: int | None, operation: ir.Operation
) -> Precision:
    """That of a layer: of the first of `layer_precisions` whose pattern matches it, else `precision`.

    `number` is that of a convolution, in program order, and None for what is none.
    """
    for text in layer_precisions:
        pattern, _, own = text.rpartition("=")
        if matches_layer(pattern, number, operation):
            return next(each for each in PRECISIONS if each == own)
    return precision


def matches_layer(pattern: str, number: int | None, operation: ir.Operation) -> bool:
    """Whether a pattern as in `WinogradOptions` names a layer, a convolution of this `number` or none."""
    if numbers := _NUMBERS.fullmatch(pattern):
        return number is not None and int(numbers[1]) <= number <= int(numbers[2] or numbers[1])
    return any(fnmatchcase(name, pattern) for name in location_names(operation.location))


def location_names(location: ir.Location) -> Iterator[str]:
    """The names in `location`, outermost first, also those inside fused and call-site locations."""
    if isinstance(location, ir.NameLoc):
        yield location.name_str
        yield from location_names(location.child_loc)
    elif isinstance(location, ir.FusedLoc):
        for part in location.locations:
            yield from location_names(part)
    elif isinstance(location, ir.CallSiteLoc):
        yield from location_names(location.callee)
        yield from location_names(location.caller)
