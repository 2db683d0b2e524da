"""The kernels for CPUs, as the passes see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, reduce
from math import isqrt

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.no_match import Reason
from iree.winograd.pipelines.cpu.choice.batch_matmul import slower_than_iree
from iree.winograd.pipelines.cpu.choice.search_space import CpuSearchSpace
from iree.winograd.pipelines.cpu.kernels.kernel_of import KERNEL_KINDS
from iree.winograd.pipelines.cpu.processor.instruction_set import InstructionSet
from iree.winograd.pipelines.cpu.processor.instruction_sets import instruction_set_of
from iree.winograd.pipelines.cpu.processor.target import IREE_CODE, CpuTarget
from iree.winograd.pipelines.cpu.processor.x86 import X86_64
from iree.winograd.pipelines.machines.defaults import default_cpu_machine
from iree.winograd.pipelines.machines.model import CpuMachine, Machine
from iree.winograd.pipelines.problems.executable_target import CPU_BACKEND, ExecutableTarget
from iree.winograd.pipelines.problems.group import ConvolutionGroup
from iree.winograd.pipelines.problems.helpers import MOST_THREADS
from iree.winograd.pipelines.problems.iree_code import IreeCode
from iree.winograd.pipelines.problems.schedule import Schedule
from iree.winograd.pipelines.problems.shape import ConvolutionShape
from iree.winograd.pipelines.problems.tensor_operations import TensorOperation

from .lowering import CpuLowering
from .tensor_dispatches.table import misfit

_LONGEST_SUM = 1024
"""Elements up to which one running sum is as accurate as a convolution's, and short for one thread."""
_HELPER_SECONDS = 1e-6
"""Until a helper that is awake has begun with a kernel's workgroups."""


@dataclass(frozen=True)
class CpuBackend:
    """Kernels of vectors, for the instruction sets of `processor/instruction_sets.py`."""

    target: CpuTarget

    @staticmethod
    def matches(target: ExecutableTarget) -> bool:
        """Whether these kernels run on the target."""
        return target.backend == CPU_BACKEND and _instruction_set(target) is not None

    @staticmethod
    def conflict(targets: Sequence[ExecutableTarget]) -> Reason | None:
        """Why no code runs on all of `targets`: they are of several instruction sets."""
        by_name = {_cpu_target(target).instruction_set.name: target for target in targets}
        if len(by_name) == 1:
            return None
        named = (f'{name} ("{target.field("target_triple")}")' for name, target in by_name.items())
        return f"on {' and '.join(named)} alike"

    @classmethod
    def least(cls, targets: Sequence[ExecutableTarget]) -> CpuBackend:
        """For code that has to run on all of `targets`."""
        return CpuBackend(reduce(CpuTarget.least, map(_cpu_target, targets)))

    @staticmethod
    def schedules() -> Sequence[type[Schedule]]:
        """The kinds of schedules that there are kernels for."""
        return tuple(KERNEL_KINDS)

    @property
    def name(self) -> str:
        """LLVM's name of the processor, empty where code is for no particular one."""
        return self.target.cpu

    @property
    def default_machine(self) -> CpuMachine:
        target = self.target
        return default_cpu_machine(
            target.cpu, target.vector_width, target.fused_multiply_add, target.l2_bytes
        )

    def insertion(self, group: ConvolutionGroup) -> ir.Operation | None:
        return group.insertion

    def split_rows(
        self,
        shape: ConvolutionShape,
        schedule: Schedule,
        reading: ConvolutionShape,
        reading_schedule: Schedule,
    ) -> int | None:
        return None

    def pair_schedule(
        self,
        widening: ConvolutionGroup,
        schedule: Schedule,
        narrowing: ConvolutionGroup,
        narrowing_schedule: Schedule,
    ) -> None:
        return None

    def misfit(self, operation: TensorOperation) -> Reason | None:
        return slower_than_iree(operation) or misfit(operation, self.target)

    @property
    def iree_code(self) -> IreeCode:
        return IREE_CODE

    @property
    def epilogues_read_parts(self) -> bool:
        return False

    def holds_channels(self, whole: ir.RankedTensorType, first: int, channels: int) -> bool:
        return True

    def first_sums(self, extent: int, length: int, results: int, *, of_rows: bool) -> int:
        return 1 if length <= _LONGEST_SUM else _nearest_divisor(extent, isqrt(length))

    @property
    def shares_workgroups(self) -> bool:
        return self.target.runs_linux and self.target.instruction_set is X86_64

    @property
    def counts_workgroups(self) -> bool:
        return True

    @property
    def uses_host_memory(self) -> bool:
        return True

    def search_space(self, machine: Machine | None = None, threads: int = 1) -> CpuSearchSpace:
        """Raises ValueError for the machine of another kind of target."""
        machine = self.default_machine if machine is None else machine
        if not isinstance(machine, CpuMachine):
            raise ValueError(f"{machine.name} is no CPU, but the target is one")
        if self.shares_workgroups and threads <= MOST_THREADS:
            machine = replace(
                machine,
                wake_seconds=min(machine.wake_seconds, _HELPER_SECONDS),
                workgroups_at_a_time=1,
            )
        return CpuSearchSpace(self.target, machine, threads)

    def lowering(self, module: ir.Operation) -> CpuLowering:
        return CpuLowering(module, self.target)


def _nearest_divisor(number: int, wanted: int) -> int:
    smaller = [each for each in range(1, isqrt(number) + 1) if number % each == 0]
    return min([*smaller, *(number // each for each in smaller)], key=lambda each: abs(each - wanted))


def _instruction_set(target: ExecutableTarget) -> InstructionSet | None:
    return instruction_set_of(target.field("target_triple"))


@cache
def _cpu_target(target: ExecutableTarget) -> CpuTarget:
    instruction_set = _instruction_set(target)
    assert instruction_set is not None, "only targets that match have a backend"
    return CpuTarget.of(target.field("cpu"), target.field("cpu_features"), instruction_set)
