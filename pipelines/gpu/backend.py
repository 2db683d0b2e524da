"""The kernels for GPUs, as the passes see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.no_match import Reason
from iree.winograd.pipelines.gpu.choice.pointwise_pair_schedules import pair_schedule
from iree.winograd.pipelines.gpu.choice.search_space import GpuSearchSpace
from iree.winograd.pipelines.gpu.device.target import EXECUTABLE_BACKENDS, GpuTarget
from iree.winograd.pipelines.gpu.lowerings.in_place import holds_channels, insertion_of
from iree.winograd.pipelines.gpu.packing.split_rows import split_rows
from iree.winograd.pipelines.gpu.schedules.fit import SCHEDULE_KINDS
from iree.winograd.pipelines.gpu.schedules.pointwise_pair import PointwisePairSchedule
from iree.winograd.pipelines.machines.defaults import default_gpu_machine
from iree.winograd.pipelines.machines.model import GpuMachine, Machine
from iree.winograd.pipelines.problems.executable_target import ExecutableTarget
from iree.winograd.pipelines.problems.group import ConvolutionGroup
from iree.winograd.pipelines.problems.iree_code import IreeCode
from iree.winograd.pipelines.problems.schedule import Schedule
from iree.winograd.pipelines.problems.shape import ConvolutionShape
from iree.winograd.pipelines.problems.tensor_operations import TensorOperation

from .lowering import GpuLowering
from .tensor_kernels import misfit

_LONGEST_ROW = 4096
"""Neighbours that a subgroup adds in as little time as another kernel takes to begin."""
_LONGEST_SUM = 256
"""Other elements, which one thread adds in that time."""
_PARALLEL_SUMS = 1024
"""Sums whose workgroups are enough for a GPU."""
_FIRST_SUMS = 31
"""Elements that one thread adds. IREE has a workgroup share each sum of a multiple of 32, of columns too."""


@dataclass(frozen=True)
class GpuBackend:
    """Kernels for Vulkan, CUDA and HIP."""

    target: GpuTarget

    @staticmethod
    def matches(target: ExecutableTarget) -> bool:
        """Whether these kernels run on the target."""
        return target.backend in EXECUTABLE_BACKENDS

    @staticmethod
    def conflict(targets: Sequence[ExecutableTarget]) -> Reason | None:
        """None: code that keeps all limits runs on all of `targets`."""
        return None

    @classmethod
    def least(cls, targets: Sequence[ExecutableTarget]) -> GpuBackend:
        """For code that has to run on all of `targets`."""
        return GpuBackend(reduce(GpuTarget.least, map(GpuTarget.of, targets)))

    @staticmethod
    def schedules() -> Sequence[type[Schedule]]:
        """The kinds of schedules that there are kernels for."""
        return tuple(SCHEDULE_KINDS)

    @property
    def name(self) -> str:
        """The architecture, empty where code is for several."""
        return self.target.architecture

    @property
    def default_machine(self) -> GpuMachine:
        return default_gpu_machine(self.target.architecture)

    def insertion(self, group: ConvolutionGroup) -> ir.Operation | None:
        return insertion_of(group)

    def split_rows(
        self,
        shape: ConvolutionShape,
        schedule: Schedule,
        reading: ConvolutionShape,
        reading_schedule: Schedule,
    ) -> int | None:
        return split_rows(shape, schedule, reading, reading_schedule)

    def pair_schedule(
        self,
        widening: ConvolutionGroup,
        schedule: Schedule,
        narrowing: ConvolutionGroup,
        narrowing_schedule: Schedule,
    ) -> PointwisePairSchedule | None:
        layers = (widening, schedule), (narrowing, narrowing_schedule)
        return pair_schedule(*layers, self.target, self.default_machine)

    def misfit(self, operation: TensorOperation) -> Reason | None:
        return misfit(operation, self.target)

    @property
    def iree_code(self) -> IreeCode:
        return self.target.iree_code

    @property
    def epilogues_read_parts(self) -> bool:
        return True

    def holds_channels(self, whole: ir.RankedTensorType, first: int, channels: int) -> bool:
        return holds_channels(whole, first, channels)

    def first_sums(self, extent: int, length: int, results: int, *, of_rows: bool) -> int:
        if length <= (_LONGEST_ROW if of_rows else _LONGEST_SUM) or results >= _PARALLEL_SUMS:
            return 1
        added = _divisor(extent)
        return extent // added if of_rows and added > 1 else added

    @property
    def shares_workgroups(self) -> bool:
        return False

    @property
    def counts_workgroups(self) -> bool:
        return False

    @property
    def uses_host_memory(self) -> bool:
        return False

    def search_space(self, machine: Machine | None = None, threads: int = 1) -> GpuSearchSpace:
        """Raises ValueError for the machine of another kind of target."""
        machine = self.default_machine if machine is None else machine
        if not isinstance(machine, GpuMachine):
            raise ValueError(f"{machine.name} is no GPU, but the target is one")
        return GpuSearchSpace(self.target, self._with_matrix_units(machine))

    def _with_matrix_units(self, machine: GpuMachine) -> GpuMachine:
        """`machine` with a rate of its matrix units.

        Where none was measured, they are taken to be as many times as fast as its other units as those of the
        default machine are.
        """
        default = self.default_machine
        if machine.matrix_flops is not None or default.matrix_flops is None:
            return machine
        return replace(machine, matrix_flops=machine.flops * default.matrix_flops / default.flops)

    def lowering(self, module: ir.Operation) -> GpuLowering:
        return GpuLowering(module, self.target)


def _divisor(extent: int) -> int:
    """How many of so many elements a thread adds: few, so that there are many threads, but enough to pay."""
    divisors = [each for each in range(1, min(extent, _LONGEST_ROW) + 1) if extent % each == 0]
    few = max(each for each in divisors if each <= _FIRST_SUMS)
    return few if few > 1 or len(divisors) == 1 else divisors[1]
