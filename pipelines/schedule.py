"""What all schedules have in common."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Schedule:
    """How kernels work through an algorithm, as data: a frozen dataclass of numbers that a tuner may vary."""

    @property
    def summed_block(self) -> int | None:
        """Products that are summed one after the other, which is what sums round by; None for all of them."""
        return None
