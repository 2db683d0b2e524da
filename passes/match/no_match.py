"""Why something isn't what is looked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from iree.winograd.dialect.bindings import ir

Reason: TypeAlias = str
"""A clause that says why not, such as "its padding is not zeros".

It stands alone where what is asked about is no part of a program: a problem, or a shape and a schedule.
"""


@dataclass(frozen=True)
class NoMatch:
    """What matching gives instead of a description: the operation that was looked at, and why it isn't it."""

    operation: ir.Operation
    reason: Reason

    def __str__(self) -> str:
        return self.reason
