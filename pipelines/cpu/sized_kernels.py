"""The kernels that one dispatch consists of: one, or several for images of different sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from iree.winograd.pipelines.emission.control_flow import when
from iree.winograd.pipelines.emission.index import Condition, Index, select_index
from iree.winograd.pipelines.emission.size_range import TileRange
from iree.winograd.pipelines.emission.work import Sizes
from iree.winograd.pipelines.problems.group import ConvolutionGroup
from iree.winograd.pipelines.problems.schedule_range import ScheduleRange

if TYPE_CHECKING:
    from iree.winograd.pipelines.cpu.kernels.filters import CpuKernel


@dataclass(frozen=True)
class SizedKernels:
    """The kernels of a convolution in ascending order of the sizes that they are for.

    `tiles` counts those of images by which they are told apart, of which each kernel but the last has fewer
    than its `ends`. The kernel number `usual_number` is for the sizes that are expected.
    """

    kernels: tuple[CpuKernel, ...]
    tiles: TileRange | None = None
    ends: tuple[int, ...] = ()
    usual_number: int = 0

    @staticmethod
    def of(
        group: ConvolutionGroup, ranges: Sequence[ScheduleRange], kernels: Sequence[CpuKernel]
    ) -> SizedKernels:
        """Those of a group that has several schedules, a kernel for each of these."""
        ends = tuple(each.below for each in ranges if each.below is not None)
        usual = next((number for number, each in enumerate(ranges) if each.times == 1), 0)
        return SizedKernels(tuple(kernels), TileRange(0, None, group.shape), ends, usual)

    @property
    def usual(self) -> CpuKernel:
        """That for the sizes that are expected."""
        return self.kernels[self.usual_number]

    def workgroups(self, sizes: Sizes) -> tuple[Index, ...]:
        """Those of the kernel for images of these sizes."""
        chosen: tuple[Index, ...]
        *grids, chosen = (each.workgroups(sizes) for each in self.kernels)
        for is_smaller, grid in reversed(list(zip(self._are_smaller(sizes), grids, strict=True))):
            extents = zip_longest(grid, chosen, fillvalue=Index(1))
            chosen = tuple(
                larger if smaller == larger else select_index(is_smaller, smaller, larger)
                for smaller, larger in extents
            )
        return chosen

    def emit(self, sizes: Sizes, emit: Callable[[int], None]) -> None:
        """Has `emit` emit the work of each kernel by its number, where images have its sizes."""
        _emit_from(0, self._are_smaller(sizes), emit)

    def _are_smaller(self, sizes: Sizes) -> list[Condition]:
        """Of each kernel but the last whether it is for images of these sizes, or one before is."""
        if self.tiles is None:
            return []
        count = self.tiles.elements(sizes)
        return [count.less_than(end) for end in self.ends]


def _emit_from(number: int, are_smaller: Sequence[Condition], emit: Callable[[int], None]) -> None:
    if number == len(are_smaller):
        emit(number)
        return
    when(are_smaller[number], lambda: emit(number), lambda: _emit_from(number + 1, are_smaller, emit))
