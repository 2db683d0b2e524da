"""From the normalization of groups of channels to the dispatch of one kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.convolutions.element_types import element_bytes
from iree.winograd.pipelines.emission.element_function import ElementFunction
from iree.winograd.pipelines.gpu.device.launch import Launcher, TensorArgument, WorkgroupThreads
from iree.winograd.pipelines.gpu.device.numbers import numbers_for
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.gpu.kernels.reductions.group_norm import GroupNormKernel
from iree.winograd.pipelines.gpu.kernels.reductions.normalized import NormalizedElementwise
from iree.winograd.pipelines.gpu.kernels.reductions.warp_group_norm import WarpGroupNormKernel
from iree.winograd.pipelines.gpu.lowerings.elementwise import ElementwiseLowering
from iree.winograd.pipelines.gpu.lowerings.image_arguments import pixels_in_place
from iree.winograd.pipelines.gpu.schedules.group_norm import (
    GroupNormSchedule,
    group_norm_schedule,
    seconds_of_parts,
)
from iree.winograd.pipelines.gpu.schedules.warp_group_norm import (
    WarpGroupNormSchedule,
    warp_group_norm_schedules,
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

    def schedule(self, target: GpuTarget) -> GroupNormSchedule | WarpGroupNormSchedule | None:
        """The fastest; None where no workgroups hold groups, or kernels for parts of them take less time."""
        extents = self.operation.sums.extents
        read, written = (
            element_bytes(str(ir.RankedTensorType(each.type).element_type))
            for each in (self.operation.sums.source, self.elementwise.result)
        )
        schedule = group_norm_schedule(extents, target, read, written)
        if schedule is None or schedule.seconds(read, written) > seconds_of_parts(extents, read, written):
            return None
        of_warps = warp_group_norm_schedules(extents, target, read, written)
        fitting = [each for each in of_warps if replace(self.elementwise.kernel, together=each.width).fits]
        candidates: list[GroupNormSchedule | WarpGroupNormSchedule] = [schedule, *fitting]
        return min(candidates, key=lambda each: each.seconds(read, written))

    def lower(self, launcher: Launcher) -> ir.Value:
        """Emits the dispatch."""
        operation, target = self.operation, launcher.target
        schedule = self.schedule(target)
        assert schedule is not None, "it has no misfit"
        width = schedule.width
        elementwise = replace(self.elementwise.kernel, numbers=numbers_for(target), together=width)
        finish = ElementFunction.of(operation.sums.finishing)
        extents = operation.sums.extents
        image, row = pixels_in_place(
            operation.sums.source, extents.kept * extents.inner, by_quads=True, together=width
        )
        normalized = NormalizedElementwise(elementwise, operation.roles)
        kernel: GroupNormKernel | WarpGroupNormKernel
        if isinstance(schedule, GroupNormSchedule):
            kernel = GroupNormKernel(schedule, finish, normalized, row)
        else:
            kernel = WarpGroupNormKernel(schedule, finish, normalized, row)
        read = [(each, True) for each in (operation.weight, operation.bias)]
        others = zip(self.elementwise.values, elementwise.operands, strict=True)
        read += [
            (value, elementwise.reads_quads(operand))
            for number, (value, operand) in enumerate(others)
            if number not in operation.roles.all
        ]

        def argument(value: ir.Value, *, by_quads: bool) -> TensorArgument:
            return replace(TensorArgument.of(value, by_quads), together=width)

        operands = [image, *((value, argument(value, by_quads=by_quads)) for value, by_quads in read)]
        result = argument(self.elementwise.result, by_quads=True)
        threads = WorkgroupThreads(schedule.threads, schedule.resident, cluster=schedule.cluster)
        return launcher.launch(kernel, kernel.name, threads, operands, result)
