"""The sum of the gradients of a filter that workgroups computed of slices of the images."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.control_flow import loop_carried
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.vectors import for_each_vector
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.problems.shape import WeightGradientShape


@dataclass(frozen=True)
class SliceSum:
    """The gradients of all taps, of `slices` slices that are added in order; a workgroup has one tap."""

    shape: WeightGradientShape
    slices: int
    vector_width: int

    @property
    def operand_shape(self) -> tuple[int, ...]:
        """slices x R... x C/g x K; of a single slice, which is the sum, R... x C/g x K."""
        shape = self.shape
        taps = (*shape.kernel_size, shape.group_inputs, shape.output_channels)
        return taps if self.slices == 1 else (self.slices, *taps)

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index]:
        """Taps."""
        return Index(prod(self.shape.kernel_size)), Index(1)

    def emit(self, work: Work, taps: Buffer, filters: Buffer) -> None:
        """Emits the sum of all slices of one tap: `operand_shape` to R... x C/g x K."""
        count = self.shape.group_inputs * self.shape.output_channels
        first = work.workgroup[0] * count

        def add(i: Index) -> None:
            def add_slice(number: Index, sums: list[ir.Value]) -> list[ir.Value]:
                others = taps.load((number + 1) * taps.stride(0) + first + i, self.vector_width)
                return [arith.addf(sums[0], others)]

            sums = [taps.load(first + i, self.vector_width)]
            filters.store(loop_carried(self.slices - 1, 1, sums, add_slice, "slice")[0], first + i)

        for_each_vector(count, self.vector_width, add, "i")
