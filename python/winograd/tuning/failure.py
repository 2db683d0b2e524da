"""What becomes of a candidate that can't be timed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Failure:
    """Why an implementation has no timing."""

    reason: str
    is_wrong_result: bool = False
