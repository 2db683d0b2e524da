"""What a kind of processor has to offer for programs to be compiled for it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Protocol

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.no_match import Reason
from iree.winograd.pipelines.machines.model import Machine
from iree.winograd.pipelines.problems.executable_target import ExecutableTarget
from iree.winograd.pipelines.problems.group import ConvolutionGroup
from iree.winograd.pipelines.problems.iree_code import IreeCode
from iree.winograd.pipelines.problems.schedule import Schedule
from iree.winograd.pipelines.problems.schedule_range import ScheduleRange
from iree.winograd.pipelines.problems.shape import ConvolutionShape
from iree.winograd.pipelines.problems.tensor_operations import TensorOperation
from iree.winograd.pipelines.problems.weight_gradient_group import WeightGradientGroup

from .search_space import SearchSpace


class Lowering(Protocol):
    """Kernels for the groups of one module; those that are equal share an executable."""

    def lower(self, group: ConvolutionGroup | WeightGradientGroup, schedule: Schedule) -> ir.Value:
        """Emits the dispatches that compute the last op of the group, at the insertion point.

        That is the backend's `insertion` of the group, if there is one. Raises ValueError for a group that
        the kernels don't compute by `schedule`.
        """

    def lower_ranges(self, group: ConvolutionGroup, ranges: Sequence[ScheduleRange]) -> ir.Value:
        """As `lower` of a group that has several schedules, each for images of some sizes.

        Raises ValueError for a range that has a misfit.
        """

    def range_misfit(self, group: ConvolutionGroup, range_: ScheduleRange) -> Reason | None:
        """Why the kernels don't compute the images of one of several ranges; None where they do."""

    def compute(self, operation: TensorOperation) -> ir.Value:
        """Emits the dispatch that computes `operation`, at the insertion point; gives what it makes.

        Raises ValueError for one that the backend has a misfit for.
        """

    def count_workgroups(
        self,
        executable: ir.Operation,
        threads: int,
        *,
        held: int,
        result_is_operand: bool,
    ) -> None:
        """Has all workgroups of a kernel wait for those of kernels before it, and say when they are done.

        Its function gets as its last operands the memory of `problems/chain.py`, its number in the
        chain, how many shares of `threads` threads it looks at beside its own of the kernel before, and
        `held` tensors that it doesn't touch. Its result has memory of its own unless it is an operand. Raises
        ValueError where the backend counts no workgroups.
        """


class Backend(Protocol):
    """The kernels for one kind of processor, as the passes see them: what to choose from, and how to emit it.

    A backend is for the least of what the executable targets of a module have.
    """

    @staticmethod
    def matches(target: ExecutableTarget) -> bool:
        """Whether these kernels run on the target."""

    @staticmethod
    def conflict(targets: Sequence[ExecutableTarget]) -> Reason | None:
        """Why no code runs on all of `targets`, each of which matches; None where some does."""

    @classmethod
    def least(cls, targets: Sequence[ExecutableTarget]) -> Backend:
        """For code that has to run on all of `targets`, each of which matches and which have no conflict."""

    @staticmethod
    def schedules() -> Sequence[type[Schedule]]:
        """The kinds of schedules that there are kernels for."""

    @property
    def name(self) -> str:
        """That of the target, and of its machines; empty where code is for several."""

    @property
    def default_machine(self) -> Machine:
        """What a machine of the target is taken to be."""

    def insertion(self, group: ConvolutionGroup) -> ir.Operation | None:
        """What inserts the output into a tensor, where kernels write it in its place there."""

    def split_rows(
        self,
        shape: ConvolutionShape,
        schedule: Schedule,
        reading: ConvolutionShape,
        reading_schedule: Schedule,
    ) -> int | None:
        """The rows of a block of the operand that a convolution's result is for the one that alone reads it.

        None where its kernels don't split numbers as the other one's multiply them.
        """

    def pair_schedule(
        self,
        widening: ConvolutionGroup,
        schedule: Schedule,
        narrowing: ConvolutionGroup,
        narrowing_schedule: Schedule,
    ) -> Hashable | None:
        """That of one kernel for two layers by these schedules, the second of which alone reads the first.

        None where one kernel isn't predicted to take less time than both, or there is none.
        """

    def misfit(self, operation: TensorOperation) -> Reason | None:
        """Why IREE's code computes an operation between convolutions; None where a kernel is to."""

    @property
    def iree_code(self) -> IreeCode:
        """What is known of IREE's own code for the target."""

    @property
    def epilogues_read_parts(self) -> bool:
        """Whether epilogues read some channels of a tensor where they lie, as `holds_channels` says."""

    def holds_channels(self, whole: ir.RankedTensorType, first: int, channels: int) -> bool:
        """Whether kernels read and write so many channels of a tensor, from `first` on, in place."""

    def first_sums(self, extent: int, length: int, results: int, *, of_rows: bool) -> int:
        """How many neighbours along a loop of `extent` belong together in sums before all else; 1 for none.

        They divide the loop. Pixels that are neighbours are added; of rows elements are that lie so far
        apart. A sum is of `length` elements, and there are as many sums as `results`.
        """

    @property
    def shares_workgroups(self) -> bool:
        """Whether callers can share the workgroups of kernels with other threads by a mailbox in memory."""

    @property
    def counts_workgroups(self) -> bool:
        """Whether kernels can wait for those before them by a count in memory: workgroups begin in order."""

    @property
    def uses_host_memory(self) -> bool:
        """Whether kernels run in memory of the host, which its allocator hands out at once."""

    def search_space(self, machine: Machine | None = None, threads: int = 1) -> SearchSpace:
        """The implementations to choose from, and their times on `machine`, the default one unless given.

        `threads` matter for CPUs. Raises ValueError for a machine of another kind.
        """

    def lowering(self, module: ir.Operation) -> Lowering:
        """What lowers the groups of `module`."""
