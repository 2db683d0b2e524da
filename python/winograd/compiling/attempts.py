"""Attempts at a program: what one of them fails on is left out of the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from iree.winograd.passes.infrastructure.containment import (
    Containment,
    InvalidRewriteError,
    RewriteFailure,
    RewriteFailuresError,
    UnknownBreakError,
)
from iree.winograd.passes.infrastructure.registry import Pass, pass_name
from iree.winograd.passes.infrastructure.unit import Unit

MAX_ATTEMPTS = 50
"""Each finds all failures of one oversight, so that a handful is many."""

Result = TypeVar("Result")


class Attempts:
    """What attempts at running `passes`, whose order alone counts, on one program failed on."""

    def __init__(self, passes: Sequence[Pass]) -> None:
        self._positions = {pass_name(pass_): position for position, pass_ in enumerate(passes)}
        self._left_out: dict[Unit, RewriteFailure] = {}
        self._verifies_each = False
        self._verified_pass: str | None = None

    @property
    def failures(self) -> tuple[RewriteFailure, ...]:
        """Those that the last attempt avoided."""
        return tuple(self._left_out.values())

    def run(self, attempt: Callable[[Containment], Result]) -> Result:
        """The result of the first `attempt`, each on a fresh copy of the program, that doesn't fail.

        Raises `RewriteFailuresError` when nothing can be left out to avoid failures, or not soon enough.
        """
        for _ in range(MAX_ATTEMPTS - 1):
            try:
                return attempt(self._containment())
            except RewriteFailuresError as error:
                if not self._learn(error.failures):
                    raise
        self._verified_pass = None
        return attempt(self._containment())

    def _containment(self) -> Containment:
        return Containment(dict(self._left_out), self._verifies_each, self._verified_pass)

    def _learn(self, failures: Sequence[RewriteFailure]) -> bool:
        """Leave out what makes for the first of `failures`; whether that changes anything.

        Others of the same cause are left out with it, the rest may be but its consequences. Where passes left
        a program that isn't valid, the next attempt looks for the one that did, and then for the rewrite.
        """
        first = failures[0]
        if isinstance(first.error, UnknownBreakError):
            self._verifies_each = True
            return True
        if first.left_out is None:
            return False
        is_invalid = isinstance(first.error, InvalidRewriteError)
        if is_invalid and first.left_out.is_whole_pass and self._verified_pass != first.rewrite:
            self._verified_pass = first.rewrite
            return True
        learnt = {first.left_out: first}
        if not is_invalid:
            learnt |= {
                each.left_out: each for each in failures if each.left_out and each.cause == first.cause
            }
        if not learnt.keys() - self._left_out.keys():
            return False
        # In later passes units may have other numbers from now on.
        last = min(map(self._position, learnt))
        kept = {unit: each for unit, each in self._left_out.items() if self._position(unit) <= last}
        self._left_out = {**kept, **learnt}
        return True

    def _position(self, unit: Unit) -> int:
        return self._positions[unit.pass_name]
