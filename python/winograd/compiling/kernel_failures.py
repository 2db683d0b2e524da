"""Which convolutions the failures of lowering belong to: ours, and those of IREE on our kernels."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from iree.winograd.diagnostic import Diagnostic
from iree.winograd.dialect.bindings import ir
from iree.winograd.errors import CompilationError
from iree.winograd.passes.infrastructure.containment import RewriteFailure, RewriteFailuresError
from iree.winograd.passes.infrastructure.unit import ORIGIN_ATTRIBUTE_NAME, Unit, origin_of
from iree.winograd.passes.match.navigation import called_kernels, walk


@dataclass(frozen=True)
class KernelUser:
    """What a kernel was made for: the unit to leave out without it, and where that is in the program."""

    origin: Unit
    location: ir.Location


KernelUsers = Mapping[str, Sequence[KernelUser]]


def take_kernel_users(module: ir.Operation) -> KernelUsers:
    """The users of each kernel of ours, by its name.

    Removes the attributes that say so, as IREE would keep equal dispatches apart for them.
    """
    users = defaultdict(list)
    for dispatch in [each for each in walk(module) if each.name == "flow.dispatch"]:
        origin = origin_of(dispatch)
        if origin is None:
            continue
        del dispatch.attributes[ORIGIN_ATTRIBUTE_NAME]
        for kernel in called_kernels(dispatch):
            users[kernel].append(KernelUser(origin, dispatch.location))
    return users


def require_lowered(module: ir.Operation) -> None:
    """Raise `RewriteFailuresError` when ops of our dialect are left: IREE crashes on ops it doesn't know.

    Each product that is left names a convolution that wasn't lowered.
    """
    left = [each for each in walk(module) if each.name.startswith("winograd.")]
    if not left:
        return
    error = ValueError(f"not lowered: {', '.join(sorted({each.name for each in left}))}")
    rewrite = "lowering to kernels"
    owners = {origin: each for each in left if (origin := origin_of(each)) is not None}
    failures = [
        RewriteFailure(rewrite, str(origin), operation.location, error, origin)
        for origin, operation in owners.items()
    ]
    whole = RewriteFailure(rewrite, "the program", module.location, error, None)
    raise RewriteFailuresError(failures or [whole])


def failures_of_kernels(
    users: KernelUsers, location: ir.Location, diagnostics: Sequence[Diagnostic]
) -> list[RewriteFailure]:
    """A failure for each user of the kernels that the first error of IREE's is about.

    Where that is unknown, one for the program at `location`. `diagnostics` are those of one compilation,
    each followed by its notes.
    """
    first = _first_error(diagnostics)
    error = CompilationError(first[0].format() if first else "no diagnostic", diagnostics)
    failures = {
        user.origin: RewriteFailure(
            f"IREE's compilation of @{kernel}", str(user.origin), user.location, error, user.origin
        )
        for kernel in _kernels_in_error(users, first)
        for user in users[kernel]
    }
    whole = RewriteFailure("IREE's compilation", "the rewritten program", location, error, None)
    return list(failures.values()) or [whole]


def _first_error(diagnostics: Sequence[Diagnostic]) -> list[Diagnostic]:
    """The first error and its notes."""
    start = next((n for n, each in enumerate(diagnostics) if each.severity == "error"), len(diagnostics))
    notes = takewhile(lambda each: each.severity == "note", diagnostics[start + 1 :])
    return [*diagnostics[start : start + 1], *notes]


def _kernels_in_error(users: KernelUsers, error: Sequence[Diagnostic]) -> list[str]:
    """The kernels that hold the operations of the error, or else those that it names."""
    files = {diagnostic.position.filename for diagnostic in error if diagnostic.position is not None}
    if located := [kernel for kernel in users if kernel in files]:
        return located
    text = "\n".join(diagnostic.message for diagnostic in error)
    return [kernel for kernel in users if re.search(rf"\b{re.escape(kernel)}\b", text)]
