"""Schedules of one layer for ranges of image sizes, where these are known only at run time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, pairwise
from math import inf, prod

from iree.winograd.passes.infrastructure.algorithm import Algorithm
from iree.winograd.passes.match.convolutions.problem import OTHER_SIZES, ConvolutionProblem
from iree.winograd.pipelines.backends.search_space import SearchSpace
from iree.winograd.pipelines.problems.schedule import LAUNCH_STAGE
from iree.winograd.pipelines.problems.schedule_range import ScheduleRange, joined
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .candidates import convolution_shape
from .decision import Candidate
from .implementation import Implementation
from .prediction import implementation_error, predict_fastest

_STEPS = 8
"""Sizes between two, among which that is found from which on what is for the larger one is faster."""
_MOST_ALGORITHMS = 3
"""Others that all schedules are predicted of, where one for the expected sizes tells how fast they are."""
_TIMES = tuple(sorted((*OTHER_SIZES, 1.0)))


def schedule_ranges(
    problem: ConvolutionProblem,
    space: SearchSpace,
    chosen: Implementation,
    limit: float | None,
    output_tile: int | None = None,
) -> tuple[ScheduleRange, ...]:
    """The schedules of `problem` for images of different sizes; none where one is enough.

    They are of its algorithm, or of others that gain enough (`RangeRules`), by tiles of `output_tile` if that
    is given. They multiply numbers of the same type as the `chosen` one, with no larger error than that or
    `limit`.
    """
    if not problem.unknown_sizes or chosen.is_left_to_iree or space.ranges_misfit(problem) is not None:
        return ()
    return _Layer(problem, space, chosen, limit, output_tile).ranges()


@dataclass(frozen=True)
class _Layer:
    """A layer of images of unknown sizes, its implementation, the limit of errors, and the tile, if given."""

    problem: ConvolutionProblem
    space: SearchSpace
    chosen: Implementation
    limit: float | None
    output_tile: int | None

    def ranges(self) -> tuple[ScheduleRange, ...]:
        single, rules = self.chosen, self.space.range_rules
        if self._seconds(single, 1.0) == inf:
            return ()
        fastest = {times: self._fastest(times) for times in _TIMES}
        losses = {times: self._loss(single, each, times) for times, each in fastest.items()}
        if max(losses.values()) <= rules.most_loss:
            return ()
        taken = [(times, fastest[times] if losses[times] > rules.least_gain else single) for times in _TIMES]
        shapes = {each: self._shape(each, times) for times, each in taken}
        if not self.space.holds_memory([(shape, each.schedule) for each, shape in shapes.items()]):
            return ()
        ends = [self._end(*before, *after) for before, after in pairwise(taken)]
        if sorted(set(ends)) != ends:
            # The one that there is for each size is as fast as others for its neighbours.
            return ()
        return joined(
            [
                ScheduleRange(each.schedule, times, end, self._other_algorithm(each))
                for (times, each), end in zip(taken, [*ends, None], strict=True)
            ]
        )

    def _other_algorithm(self, implementation: Implementation) -> Algorithm | None:
        return None if implementation.algorithm == self.chosen.algorithm else implementation.algorithm

    def _fastest(self, times: float) -> Implementation:
        """Of those that compute the same that for images of so many times the expected size.

        Those of other algorithms are some that gain enough over the best of the chosen one.
        """
        own = self._least((self.chosen, *self._alike(self.chosen.algorithm, times)), times)
        algorithms = self._other_algorithms(times, self._seconds(own, times))
        others = [each for algorithm in algorithms for each in self._alike(algorithm, times)]
        fastest = self._least((own, *others), times)
        is_other = fastest != own and self._loss(own, fastest, times) > self.space.range_rules.algorithm_gain
        return fastest if is_other else own

    def _least(self, implementations: Iterable[Implementation], times: float) -> Implementation:
        return min(implementations, key=lambda implementation: self._seconds(implementation, times))

    def _alike(self, algorithm: Algorithm, times: float) -> Iterator[Implementation]:
        """Those of an algorithm that compute the same, no less accurately."""
        chosen = self.chosen
        most_error = max(implementation_error(self.problem, chosen), self.limit or 0.0)
        shape = self._shape(Implementation(algorithm, chosen.schedule), times)
        for each in self.space.schedules_of_size(shape):
            implementation = Implementation(algorithm, each)
            is_alike = each.product_type == chosen.product_type
            is_alike = is_alike and self._keeps_operands(implementation) == self._keeps_operands(chosen)
            if is_alike and implementation_error(self.problem, implementation) <= most_error:
                yield implementation

    def _other_algorithms(self, times: float, most_seconds: float) -> Iterable[Algorithm]:
        """Those by which images of so many times the expected size may be computed in less than some time."""
        keeps_blocks = self.space.keeps_blocks
        problem = self.problem if keeps_blocks else self.problem.resized(times)
        candidates = predict_fastest(problem, self.space, self.limit, self.output_tile, 0.0)
        others = [each.implementation for each in candidates if self._is_other(each)]
        if keeps_blocks:
            seconds = {each: self._seconds(each, times) for each in others}
            others = sorted(
                (each for each in others if seconds[each] < most_seconds), key=seconds.__getitem__
            )
        algorithms = dict.fromkeys(each.algorithm for each in others)
        return islice(algorithms, _MOST_ALGORITHMS if keeps_blocks else None)

    def _is_other(self, candidate: Candidate) -> bool:
        implementation = candidate.implementation
        return not implementation.is_left_to_iree and implementation.algorithm != self.chosen.algorithm

    def _keeps_operands(self, implementation: Implementation) -> bool:
        are_transformed = not implementation.algorithm.is_direct
        return implementation.schedule.keeps_operands(
            self.problem.exact_type, are_transformed=are_transformed
        )

    def _end(self, times: float, smaller: Implementation, next_times: float, larger: Implementation) -> int:
        """The tiles of the smallest images from which on the larger ones' is predicted to be faster."""
        step = (next_times / times) ** (1 / _STEPS)
        sizes = [times * step**number for number in range(1, _STEPS + 1)]
        slower = [each for each in sizes if self._seconds(smaller, each) < self._seconds(larger, each)]
        # Of few tiles those of several sizes are as many.
        return max(self._tiles(max(slower, default=times) * step), self._tiles(times) + 1)

    def _tiles(self, times: float) -> int:
        """Of all images, by the chosen algorithm."""
        batch = self.problem.batch or self.problem.expected_batch or self.space.dynamic_batch
        return batch * prod(self._shape(self.chosen, times).tiles_per_image)

    def _loss(self, slower: Implementation, faster: Implementation, times: float) -> float:
        """What the first takes longer, over what the kernels of the second take."""
        stages = self.space.sized_stage_seconds(self._shape(faster, times), faster.schedule)
        longer = self._seconds(slower, times) - sum(stages.values())
        return longer / sum(seconds for stage, seconds in stages.items() if stage != LAUNCH_STAGE)

    def _seconds(self, implementation: Implementation, times: float) -> float:
        """Predicted; infinite where the schedule isn't for images of that size."""
        stages = self.space.sized_stage_seconds(self._shape(implementation, times), implementation.schedule)
        return sum(stages.values()) if stages else inf

    def _shape(self, implementation: Implementation, times: float) -> ConvolutionShape:
        """Images are channels first where kernels of the chosen schedule take them: others get them alike."""
        read, written = self._layouts
        shape = convolution_shape(self.problem.resized(times), implementation.algorithm)
        return shape.with_layouts(input_channels_first=read, output_channels_first=written)

    @cached_property
    def _layouts(self) -> tuple[bool, bool]:
        shape = convolution_shape(self.problem, self.chosen.algorithm)
        return self.space.channels_first_images(shape, self.chosen.schedule)
