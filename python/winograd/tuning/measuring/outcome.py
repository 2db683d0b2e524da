"""What becomes of a candidate that is to be timed: what it took, call by call, or why it can't be."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

OUTLIER_RANGES = 3.0
"""Interquartile ranges above the third quartile beyond which a call was disturbed by something else."""


@dataclass(frozen=True)
class Timing:
    """Seconds of single calls, one per round. Raises ValueError when there is none."""

    samples: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.samples or min(self.samples) <= 0:
            raise ValueError(f"a timing needs positive samples, not {self.samples}")

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def quartiles(self) -> tuple[float, float]:
        """The first and the third."""
        if len(self.samples) == 1:
            return self.samples[0], self.samples[0]
        first, _, third = statistics.quantiles(self.samples, n=4, method="inclusive")
        return first, third

    @property
    def spread(self) -> float:
        """The interquartile range relative to the median."""
        first, third = self.quartiles
        return (third - first) / self.median

    @property
    def outliers(self) -> int:
        """How many samples something else disturbed; the median hardly depends on them."""
        first, third = self.quartiles
        return sum(sample > third + OUTLIER_RANGES * (third - first) for sample in self.samples)

    def ratio_to(self, other: Timing) -> float:
        """The median of the quotients of samples of one round: slow spells of the machine cancel."""
        quotients = (own / its for own, its in zip(self.samples, other.samples, strict=False))
        return statistics.median(quotients)


@dataclass(frozen=True)
class Failure:
    """Why an implementation has no timing."""

    reason: str
    is_wrong_result: bool = False


Outcome = Timing | Failure
