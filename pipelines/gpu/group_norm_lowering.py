"""From the normalization of groups of channels to the dispatch of one kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.element_types import element_bytes
from iree.winograd.pipelines.emission.element_function import ElementFunction
from iree.winograd.pipelines.gpu.device.launch import Launcher, TensorArgument, WorkgroupThreads
from iree.winograd.pipelines.gpu.device.numbers import numbers_for
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.gpu.elementwise_lowering import ElementwiseLowering
from iree.winograd.pipelines.gpu.image_arguments import pixels_in_place
from iree.winograd.pipelines.gpu.kernels.group_norm import GroupNormKernel
from iree.winograd.pipelines.gpu.schedules.group_norm import (
    GroupNormSchedule,
    group_norm_schedule,
    seconds_of_parts,
)
from iree.winograd.pipelines.problems.tensor_operations import GroupNormalization


@dataclass(frozen=True)
class GroupNormLowering:
    """An operation, and its elementwise part as a kernel would compute it by itself."""

    operation: GroupNormalization
    elementwise: ElementwiseLowering

    @staticmethod
    def of(operation: GroupNormalization) -> GroupNormLowering:
        return GroupNormLowering(operation, ElementwiseLowering.of(operation.computed))

    def schedule(self, target: GpuTarget) -> GroupNormSchedule | None:
        """The fastest; None where no workgroups hold groups, or kernels for parts of them take less time."""
        extents = self.operation.sums.extents
        read, written = (
            element_bytes(str(ir.RankedTensorType(each.type).element_type))
            for each in (self.operation.sums.source, self.elementwise.result)
        )
        schedule = group_norm_schedule(extents, target, read, written)
        if schedule is None or schedule.seconds(read, written) > seconds_of_parts(extents, read, written):
            return None
        return schedule

    def lower(self, launcher: Launcher) -> ir.Value:
        """Emits the dispatch."""
        operation, target = self.operation, launcher.target
        schedule = self.schedule(target)
        assert schedule is not None, "it has no misfit"
        elementwise = replace(self.elementwise.kernel, numbers=numbers_for(target))
        finish = ElementFunction.of(operation.sums.finishing)
        extents = operation.sums.extents
        image, row = pixels_in_place(operation.sums.source, extents.kept * extents.inner, by_quads=True)
        kernel = GroupNormKernel(schedule, finish, elementwise, operation.roles, row)
        read = [(each, True) for each in (operation.weight, operation.bias)]
        others = zip(self.elementwise.values, elementwise.operands, strict=True)
        read += [
            (value, elementwise.reads_quads(operand))
            for number, (value, operand) in enumerate(others)
            if number not in operation.roles.all
        ]
        operands = [image, *((value, TensorArgument.of(value, by_quads)) for value, by_quads in read)]
        result = TensorArgument.of(self.elementwise.result, by_quads=True)
        threads = WorkgroupThreads(schedule.threads, cluster=schedule.cluster)
        return launcher.launch(kernel, kernel.name, threads, operands, result)
