"""What was found of one thing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """The `state` of a `subject`; with a `remedy` it is a problem, that it solves.

    What isn't `present` is none: not everybody needs it.
    """

    subject: str
    state: str
    remedy: str | None = None
    present: bool = True
