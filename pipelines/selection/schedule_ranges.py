"""Schedules of one layer for ranges of image sizes, where these are known only at run time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import inf, prod

from iree.winograd.passes.match.problem import OTHER_SIZES, ConvolutionProblem
from iree.winograd.pipelines.backends.search_space import SearchSpace
from iree.winograd.pipelines.problems.schedule import LAUNCH_STAGE, Schedule
from iree.winograd.pipelines.problems.schedule_range import ScheduleRange, joined
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .candidates import convolution_shape
from .implementation import Implementation
from .prediction import implementation_error

MOST_LOSS = 0.1
"""What one schedule may take longer at half to twice the expected sizes than the best one there, over what
the kernels of that take, before there are several: each is a kernel more to compile and to load."""
LEAST_GAIN = 0.05
"""The same that others have to gain where there are several."""
_STEPS = 8
"""Sizes between two, among which that is found from which on the schedule of the larger one is faster."""
_TIMES = tuple(sorted((*OTHER_SIZES, 1.0)))


def schedule_ranges(
    problem: ConvolutionProblem, space: SearchSpace, chosen: Implementation, limit: float | None
) -> tuple[ScheduleRange, ...]:
    """The schedules of `problem` by its algorithm for images of different sizes; none where one is enough.

    They multiply numbers of the same type as the `chosen` one, with no larger error than that or `limit`.
    """
    if not problem.unknown_sizes or not space.keeps_blocks or chosen.is_left_to_iree:
        return ()
    # Filters known only in a call would be transformed for each, and images are transposed behind all.
    if problem.runtime_filter or problem.output_channels_first:
        return ()
    return _Layer(problem, space, chosen, max(implementation_error(problem, chosen), limit or 0.0)).ranges()


@dataclass(frozen=True)
class _Layer:
    """A layer of images of unknown sizes, its implementation, and the error that others may have."""

    problem: ConvolutionProblem
    space: SearchSpace
    chosen: Implementation
    most_error: float

    def ranges(self) -> tuple[ScheduleRange, ...]:
        single, fastest = self.chosen.schedule, {times: self._fastest(times) for times in _TIMES}
        losses = {times: self._loss(single, each, times) for times, each in fastest.items()}
        if max(losses.values()) <= MOST_LOSS:
            return ()
        taken = [(times, fastest[times] if losses[times] > LEAST_GAIN else single) for times in _TIMES]
        ends = [self._end(*before, *after) for before, after in pairwise(taken)]
        return joined(
            [ScheduleRange(each, times, end) for (times, each), end in zip(taken, [*ends, None], strict=True)]
        )

    def _fastest(self, times: float) -> Schedule:
        """Of the schedules that compute the same that of images of so many times the expected size."""
        return min(self._alike(times), key=lambda schedule: self._seconds(schedule, times))

    def _alike(self, times: float) -> Iterator[Schedule]:
        problem, chosen = self.problem, self.chosen

        def keeps(schedule: Schedule) -> bool:
            transforms = not chosen.algorithm.is_direct
            return schedule.keeps_operands(problem.exact_type, are_transformed=transforms)

        yield chosen.schedule
        for each in self.space.schedules_of_size(self._shape(times)):
            is_alike = each.product_type == chosen.product_type and keeps(each) == keeps(chosen.schedule)
            implementation = Implementation(chosen.algorithm, each)
            if is_alike and implementation_error(problem, implementation) <= self.most_error:
                yield each

    def _end(self, times: float, schedule: Schedule, next_times: float, next_schedule: Schedule) -> int:
        """The tiles of the smallest images from which on the next schedule is predicted to be faster."""
        step = (next_times / times) ** (1 / _STEPS)
        sizes = [times * step**number for number in range(1, _STEPS + 1)]
        slower = [
            each for each in sizes if self._seconds(schedule, each) < self._seconds(next_schedule, each)
        ]
        return self._tiles(max(slower, default=times) * step)

    def _tiles(self, times: float) -> int:
        """Of all images."""
        batch = self.problem.batch or self.problem.expected_batch or self.space.dynamic_batch
        return batch * prod(self._shape(times).tiles_per_image)

    def _loss(self, schedule: Schedule, fastest: Schedule, times: float) -> float:
        stages = self.space.stage_seconds(self._shape(times), fastest)
        longer = self._seconds(schedule, times) - sum(stages.values())
        return longer / sum(seconds for stage, seconds in stages.items() if stage != LAUNCH_STAGE)

    def _seconds(self, schedule: Schedule, times: float) -> float:
        """Predicted; infinite where the schedule isn't for images of that size."""
        shape = self._shape(times)
        if self.space.misfit(shape, schedule) is not None:
            return inf
        return sum(self.space.stage_seconds(shape, schedule).values())

    def _shape(self, times: float) -> ConvolutionShape:
        """Images are transposed where no kernel of the chosen schedule reads them channels first."""
        return convolution_shape(self.problem.resized(times), self.chosen.algorithm).channels_last
