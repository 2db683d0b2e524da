"""What a target offers for a convolution, and what each offer is predicted to take."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Protocol

from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.passes.match.no_match import Reason
from iree.winograd.passes.match.normalizations.image_sum import SummedExtents
from iree.winograd.pipelines.machines.model import Limits, Machine
from iree.winograd.pipelines.problems.iree_code import IreeCode
from iree.winograd.pipelines.problems.schedule import Schedule
from iree.winograd.pipelines.problems.schedule_range import RangeRules
from iree.winograd.pipelines.problems.shape import ConvolutionShape


class SearchSpace(Hashable, Protocol):
    """What the choice of an implementation asks of a target; equal ones predict alike."""

    @property
    def key(self) -> str:
        """The target and what else of it decides which implementation is best."""

    @property
    def machine(self) -> Machine:
        """What times are predicted for."""

    def behind(self, shape: ConvolutionShape, schedule: Schedule) -> SearchSpace:
        """That for a layer which alone reads what kernels of another one leave by its schedule."""

    @property
    def iree_code(self) -> IreeCode:
        """What is known of IREE's own code for the target."""

    @property
    def limits(self) -> Limits:
        """What the machine's rates allow whatever the kernels are."""

    @property
    def dynamic_batch(self) -> int:
        """The images that a batch counts as which is known only at run time, where none are expected."""

    @property
    def max_relative_errors(self) -> Mapping[str, float]:
        """By the text of element types: the predicted error that an algorithm may have by default."""

    @property
    def takes_parameters(self) -> bool:
        """Whether kernels multiply matrices as well that are known only when the program is loaded."""

    @property
    def least_unknown_multiply_adds(self) -> int | None:
        """Multiply-adds from which on kernels multiply rows by a matrix known only at run time, too.

        None where they never do.
        """

    @property
    def stores_half(self) -> bool:
        """Whether images of half precision that only kernels read are stored so, not in f32, rounded."""

    @property
    def copies_half(self) -> bool:
        """Whether kernels copy pixels of such images (`match_copied_pixels`)."""

    def finds_moments(self, extents: SummedExtents) -> bool:
        """Whether a kernel finds moments of groups of a tensor's channels, also of half precision."""

    @property
    def unknown_size_tolerance(self) -> float:
        """Relative difference in predicted times at the expected sizes that suiting others is worth."""

    @property
    def keeps_blocks(self) -> bool:
        """Whether kernels of unknown sizes work on whole blocks, however small images are."""

    def problem_misfit(self, problem: ConvolutionProblem) -> Reason | None:
        """Why the kernels don't compute `problem`, or should not; None where they do."""

    def default_schedules(self, shape: ConvolutionShape) -> Sequence[Schedule]:
        """The schedules that are taken without measurement: of each accuracy the one predicted to be fastest.

        The fastest comes first. Raises ValueError where none fits.
        """

    def schedules(self, shape: ConvolutionShape) -> Iterator[Schedule]:
        """All schedules worth measuring that keep the target's limits, the default one first."""

    def schedules_of_size(self, shape: ConvolutionShape) -> Iterator[Schedule]:
        """Those that keep the target's limits for images of about the expected sizes, if there are others
        for images of other sizes."""

    @property
    def range_rules(self) -> RangeRules:
        """When a layer has several kernels by ranges of sizes."""

    def ranges_misfit(self, problem: ConvolutionProblem) -> Reason | None:
        """Why a layer of images of unknown sizes has one kernel for all of them; None where it may not."""

    def sized_stage_seconds(self, shape: ConvolutionShape, schedule: Schedule) -> Mapping[str, float]:
        """As `stage_seconds` of a kernel that is told the sizes of `shape`, whatever it was chosen for.

        Empty where it isn't for images of these sizes, or isn't one of several.
        """

    def channels_first_images(self, shape: ConvolutionShape, schedule: Schedule) -> tuple[bool, bool]:
        """Whether kernels of a schedule read and write the channels-first images of a shape where they are.

        They are told so of images that are channels first: others read or write a transposed one.
        """

    def holds_memory(self, kernels: Sequence[tuple[ConvolutionShape, Schedule]]) -> bool:
        """Whether workgroups have the memory that all of several kernels, for one range each, need."""

    def limit_seconds(self, operations: int, size: int, schedule: Schedule) -> float | None:
        """What no kernel by `schedule` takes less than that does so many operations and moves `size` bytes.

        It is the longer of both, at the peak rate of the units that multiply and at that of the memory which
        holds so much. None where these aren't known.
        """

    def least_seconds(self, shape: ConvolutionShape) -> float:
        """What no default schedule is predicted to take less than, without looking for one."""

    def iree_stage_seconds(self, problem: ConvolutionProblem) -> Mapping[str, float]:
        """Seconds that the stages of IREE's own code are predicted to take; empty where there is no model.

        There is one for products of rows and a matrix.
        """

    def far_image_seconds(self, shape: ConvolutionShape) -> float:
        """What `shape` takes beyond the prediction where a batch's images come from beyond the caches."""

    def least_filter_bytes(self, shape: ConvolutionShape) -> int:
        """What `stored_filter_bytes` are at least, by any schedule."""

    @property
    def filter_byte_price(self) -> float:
        """Seconds that a layer may take longer for each byte that its filters take less, by default."""

    def misfit(self, shape: ConvolutionShape, schedule: Schedule) -> Reason | None:
        """Why the target's kernels don't compute `shape` by `schedule`; None where they do."""

    def stage_seconds(self, shape: ConvolutionShape, schedule: Schedule) -> Mapping[str, float]:
        """Seconds that each stage is predicted to take; their sum is the prediction for the convolution."""
