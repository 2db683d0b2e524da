"""Schedules of one convolution for images of different sizes, where these are known only at run time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from iree.winograd.passes.infrastructure.algorithm import Algorithm

from .schedule import Schedule


@dataclass(frozen=True)
class ScheduleRange:
    """The schedule of images of so many tiles, and the sizes that it was chosen for.

    A convolution has several, in ascending order of their tiles, which are those of all images of a batch.

    Raises ValueError for sizes or tiles that are not positive.
    """

    schedule: Schedule
    times: float
    """The sizes over those that are expected."""
    below: int | None
    """It has images of fewer tiles, but for those of the ranges before; None for all others.

    They are those of the convolution's own algorithm.
    """
    algorithm: Algorithm | None = None
    """Another algorithm than the convolution's own, whose filters are transformed beside its."""

    def __post_init__(self) -> None:
        if self.times <= 0 or (self.below is not None and self.below < 1):
            raise ValueError(f"a range is of positive sizes and tiles, not of {self.times} and {self.below}")


@dataclass(frozen=True)
class RangeRules:
    """When a layer of images of unknown sizes has several kernels, each for a range of these."""

    most_loss: float
    """What one schedule may take longer at half to twice the expected sizes than what is best there, over
    what the kernels of that take, before there are several: each is a kernel more to compile and to load."""
    least_gain: float
    """The same that others have to gain where there are several."""
    algorithm_gain: float
    """The same that those of another algorithm, which has filters of its own, have to gain over all of the
    layer's."""


def joined(ranges: Sequence[ScheduleRange]) -> tuple[ScheduleRange, ...]:
    """`ranges` with neighbours of the same algorithm and schedule as one, for the expected sizes."""
    found: list[ScheduleRange] = []
    for each in ranges:
        if found and (found[-1].algorithm, found[-1].schedule) == (each.algorithm, each.schedule):
            found[-1] = replace(each, times=1.0)
        else:
            found.append(each)
    return tuple(found)
