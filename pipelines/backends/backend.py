"""What a kind of processor has to offer for programs to be compiled for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.batch_matmul import BatchMatmul, BatchProduct
from iree.winograd.passes.match.columns import Columns
from iree.winograd.passes.match.layer_norm import LayerNorm
from iree.winograd.passes.match.no_match import Reason
from iree.winograd.pipelines.machines.model import Machine
from iree.winograd.pipelines.specification.executable_target import ExecutableTarget
from iree.winograd.pipelines.specification.group import ConvolutionGroup
from iree.winograd.pipelines.specification.schedule import Schedule
from iree.winograd.pipelines.specification.weight_gradient_group import WeightGradientGroup
from iree.winograd.pipelines.specification.windows import Windows

from .search_space import SearchSpace


class Lowering(Protocol):
    """Kernels for the groups of one module; those that are equal share an executable."""

    def lower(self, group: ConvolutionGroup | WeightGradientGroup, schedule: Schedule) -> ir.Value:
        """Emits the dispatches that compute the last op of the group, at the insertion point.

        That is the backend's `insertion` of the group, if there is one. Raises ValueError for a group that
        the kernels don't compute by `schedule`.
        """

    def channels_last(self, image: ir.Value) -> ir.Value:
        """Emits the dispatch that makes `N x C x H...` of f32 `N x H... x C`, at the insertion point.

        Only N may be dynamic.
        """

    def maxima(self, image: ir.Value, windows: Windows) -> ir.Value:
        """Emits the dispatch that pools windows of f32 `N x H x W x C`, at the insertion point.

        Only N may be dynamic. Raises ValueError where the backend has threads pool in place.
        """

    def softmax(self, rows: ir.Value, length: int) -> ir.Value:
        """Emits the dispatch of softmax of the rows of `N x ...` of f32, at the insertion point.

        They are `length` neighbours each. Only N may be dynamic. Raises ValueError where the backend has no
        kernel for it.
        """

    def column_softmax(self, columns: Columns) -> ir.Value:
        """Emits the dispatch of softmax of columns of f32, at the insertion point, in the order of `sizes`.

        Raises ValueError where the backend has no kernel for it.
        """

    def layer_norm(self, layer_norm: LayerNorm) -> ir.Value:
        """Emits the dispatch of layer normalization of rows of f32, at the insertion point.

        Raises ValueError where the backend has no kernel for it.
        """

    def batch_product(self, product: BatchMatmul, threads: int) -> ir.Value:
        """Emits the dispatch of products of the matrices of a batch, for `threads`, at the insertion point.

        Raises ValueError where the backend has no kernel for it.
        """

    def count_workgroups(
        self,
        executable: ir.Operation,
        grid: tuple[int, ...],
        threads: int,
        *,
        held: int,
        result_is_operand: bool,
    ) -> None:
        """Has all workgroups of a kernel wait for those of kernels before it, and say when they are done.

        Its function gets as its last operands the memory of `specification/chain.py`, its number in the
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

    @classmethod
    def least(cls, targets: Sequence[ExecutableTarget]) -> Backend:
        """For code that has to run on all of `targets`, each of which matches."""

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

    def shuffles_channels(self, groups: int, channels: int) -> bool:
        """Whether kernels that make images channels last are faster than IREE's code for shuffled channels.

        Those of `groups` groups of so many `channels` each.
        """

    @property
    def reads_slices(self) -> bool:
        """Whether kernels read neighbouring channels of a larger tensor in place."""

    @property
    def pools_in_place(self) -> bool:
        """Whether threads that read all elements of a window pool faster than IREE's loops over these."""

    @property
    def has_softmax(self) -> bool:
        """Whether there are kernels for softmax of rows and of columns."""

    @property
    def has_layer_norm(self) -> bool:
        """Whether there is a kernel for layer normalization of rows."""

    def batch_product_misfit(self, problem: BatchProduct) -> Reason | None:
        """Why IREE's code computes products of the matrices of a batch; None where a kernel is to."""

    @property
    def vectorizes_loops(self) -> bool:
        """Whether IREE's code for an innermost loop is as fast as its extent fills vectors."""

    def first_sums(self, extent: int, length: int, results: int, *, of_rows: bool) -> int:
        """How many neighbours along a loop of `extent` belong together in sums before all else; 1 for none.

        They divide the loop. Pixels that are neighbours are added; of rows elements are that lie so far
        apart. A sum is of `length` elements, and there are as many sums as `results`.
        """

    @property
    def counts_workgroups(self) -> bool:
        """Whether kernels can wait for those before them by a count in memory: workgroups begin in order."""

    @property
    def extrema_lose_nan(self) -> bool:
        """Whether IREE compiles `arith.maximumf` and `arith.minimumf` to give the other number for a NaN."""

    @property
    def multiplies_half_slowly(self) -> bool:
        """Whether IREE's code for convolutions of f16 and bf16 is slower than kernels that multiply f32."""

    @property
    def reductions_race(self) -> bool:
        """Whether IREE's code reads what other threads reduced without waiting for them."""

    @property
    def uses_host_memory(self) -> bool:
        """Whether kernels run in memory of the host, which its allocator hands out at once."""

    def search_space(self, machine: Machine | None = None, threads: int = 1) -> SearchSpace:
        """The implementations to choose from, and their times on `machine`, the default one unless given.

        `threads` matter for CPUs. Raises ValueError for a machine of another kind.
        """

    def lowering(self, module: ir.Operation) -> Lowering:
        """What lowers the groups of `module`."""
