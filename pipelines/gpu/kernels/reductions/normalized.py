"""What a kernel that normalizes groups of channels computes of the elements that its threads hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.emission.element_function import ElementFunction
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.work import Sizes
from iree.winograd.pipelines.gpu.device.memory import GlobalBuffer
from iree.winograd.pipelines.gpu.kernels.images.elementwise import ElementwiseKernel
from iree.winograd.pipelines.gpu.schedules.group_norm import GroupNormSchedule
from iree.winograd.pipelines.gpu.schedules.warp_group_norm import WarpGroupNormSchedule
from iree.winograd.pipelines.problems.tensor_operations import NormalizedOperands

ScheduleT = TypeVar("ScheduleT", bound=GroupNormSchedule | WarpGroupNormSchedule)


@dataclass(frozen=True)
class NormalizedElementwise:
    """An elementwise operation, some of whose operands are an image and what normalizes its groups."""

    kernel: ElementwiseKernel
    roles: NormalizedOperands

    def computed(
        self,
        value: ir.Value,
        factors: ir.Value,
        addends: ir.Value,
        others: Sequence[GlobalBuffer],
        place: Index,
    ) -> ir.Value:
        """Of neighbours of the image at `place`; others are its further operands, in their order."""
        known = dict(zip(self.roles.all, (value, factors, addends), strict=True))
        left = iter(others)
        elements = [
            known[number] if number in known else self.kernel.loaded(operand, next(left), place)
            for number, operand in enumerate(self.kernel.operands)
        ]
        return self.kernel.computed(elements)


@dataclass(frozen=True)
class HeldGroups(Generic[ScheduleT]):
    """A kernel whose threads hold the image while its groups are normalized.

    `finish` is what is computed of a group's squared deviations: the inverse of its deviation.
    """

    schedule: ScheduleT
    finish: ElementFunction
    normalized: NormalizedElementwise
    row: int
    """Elements from one pixel of the image to the next where it is read, as in a tensor of more channels."""

    @property
    def name(self) -> str:
        extents = self.schedule.extents
        return f"winograd_group_norm_{extents.outer}x{extents.rows}x{extents.kept}x{extents.inner}"

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index, Index]:
        """Those of a cluster, blocks of groups, what is outer."""
        of_cluster, blocks, outer = self.schedule.grid
        return Index(of_cluster), Index(blocks), Index(outer)
