"""Why something isn't what a pass looks for."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir


@dataclass(frozen=True)
class NoMatch:
    """What matching gives instead of a description: the operation that was looked at, and why it isn't it."""

    operation: ir.Operation
    reason: str
    """A clause about the operation, such as "its padding is not zeros"."""

    def __str__(self) -> str:
        return self.reason
