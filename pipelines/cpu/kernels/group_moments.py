"""The CPU kernels of group normalization: moments of parts of an image, and what channels are scaled by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from iree.winograd.dialect.algebra.largest_divisor import largest_divisor
from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.passes.match.no_match import Reason
from iree.winograd.passes.match.normalizations.image_sum import SummedExtents
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.emission.buffer import Buffer, scratch
from iree.winograd.pipelines.emission.control_flow import loop, loop_carried, named
from iree.winograd.pipelines.emission.element_function import VectorFunction
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.vectors import (
    broadcast,
    constant_like,
    for_each_vector,
    multiply_add,
    splat,
    vector_width_for,
)
from iree.winograd.pipelines.emission.work import Sizes, Work

_PART_ELEMENTS = 1 << 16
"""Of an image, at most, that a workgroup reads twice: L2 holds them beside others."""
_LEAST_ROWS = 8
"""Of a part, whose moments are worth their combination."""
_SUMMED_ROWS = 64
"""At most, that are added one after the other: the sums of as many are added then."""
_MOST_VECTORS = 8
"""Of channels that are summed side by side: additions don't wait for each other."""
_MEANS, _DEVIATIONS = range(2)
"""The places of both moments in what holds them."""


def moments_misfit(extents: SummedExtents, target: CpuTarget) -> Reason | None:
    """Why no kernel finds moments of groups of channels; None where one does."""
    kernel = GroupMomentsKernel(extents, target)
    if not target.stores_half:
        return "IREE's loops over pixels are vectors of channels where images are stored in f32"
    if extents.kept == 1:
        return "all of a group lies together in channels-first images"
    if kernel.channels % target.vector_width:
        return f"{kernel.channels} channels don't fill vectors"
    if kernel.part_rows < min(extents.rows, _LEAST_ROWS):
        return f"{extents.rows} pixels of {kernel.channels} channels divide into no equal parts"
    return None


@dataclass(frozen=True)
class GroupMomentsKernel:
    """Means of groups of channels, and sums of squared deviations from them, of parts of an image.

    A workgroup takes `part_rows` pixels, with all of their channels: first for the means, then, while L2
    holds them, for the deviations, which cancel nothing. `winograd_group_factors` combines the parts.
    """

    extents: SummedExtents
    target: CpuTarget

    @property
    def name(self) -> str:
        extents = self.extents
        return f"winograd_moments_{extents.outer}x{extents.rows}x{extents.kept}x{extents.inner}"

    @property
    def part_rows(self) -> int:
        """Pixels of a workgroup."""
        return largest_divisor(self.extents.rows, max(1, _PART_ELEMENTS // self.channels))

    @property
    def parts(self) -> int:
        """Of an image."""
        return self.extents.rows // self.part_rows

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Both moments x images x parts x groups."""
        return (2, self.extents.outer, self.parts, self.extents.kept)

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index]:
        """Parts of all images."""
        return Index(self.parts), Index(self.extents.outer)

    def emit(self, work: Work, image: Buffer, moments: Buffer) -> None:
        """Emits the work of one workgroup at the insertion point: N x pixels x channels to `sizes`."""
        part, number, _ = work.workgroup
        begin = image.origin + (number * self.extents.rows + part * self.part_rows) * self.channels
        width = self.target.vector_width
        sums = scratch((self.channels,), image.computed, "sums")
        means = scratch((self.channels,), image.computed, "means")

        def element(row: Index, channel: Index) -> ir.Value:
            return image.load(begin + row * self.channels + channel, width)

        def squared_deviation(row: Index, channel: Index) -> ir.Value:
            deviation = arith.subf(element(row, channel), means.load(channel, width))
            return arith.mulf(deviation, deviation)

        def store_mean(group: Index, total: ir.Value) -> None:
            count = splat(self.part_rows * self.extents.inner, 1, image.computed)
            mean = arith.divf(total, count)
            moments.store(mean, moments.offset([_MEANS, number, part, group]))
            with loop(self.extents.inner, name="channel") as channel:
                means.store(mean, group * self.extents.inner + channel)

        def store_deviations(group: Index, total: ir.Value) -> None:
            moments.store(total, moments.offset([_DEVIATIONS, number, part, group]))

        with named("mean"):
            self._sum_channels(element, sums)
            self._for_each_group(sums, store_mean)
        with named("deviations"):
            self._sum_channels(squared_deviation, sums)
            self._for_each_group(sums, store_deviations)

    def _sum_channels(self, element: Callable[[Index, Index], ir.Value], sums: Buffer) -> None:
        """Sums of `element` of each row and of channels from one on, over the rows, to `sums`."""
        width = self.target.vector_width
        vectors = largest_divisor(self.channels // width, _MOST_VECTORS)
        rows = largest_divisor(self.part_rows, _SUMMED_ROWS)
        zeros = [splat(0.0, width, sums.computed)] * vectors
        with loop(self.channels, vectors * width, "channel") as first:

            def add_rows(start: Index, totals: list[ir.Value]) -> list[ir.Value]:
                def add(row: Index, before: list[ir.Value]) -> list[ir.Value]:
                    return [
                        arith.addf(each, element(start + row, first + number * width))
                        for number, each in enumerate(before)
                    ]

                return list(map(arith.addf, totals, loop_carried(rows, 1, zeros, add, "row")))

            totals = loop_carried(self.part_rows, rows, zeros, add_rows, "rows")
            for number, each in enumerate(totals):
                sums.store(each, first + number * width)

    def _for_each_group(self, sums: Buffer, body: Callable[[Index, ir.Value], None]) -> None:
        """What is done with each group and the sum of its channels' `sums`."""
        with loop(self.extents.kept, name="group") as group:
            first = group * self.extents.inner

            def add(channel: Index, before: list[ir.Value]) -> list[ir.Value]:
                return [arith.addf(before[0], sums.load(first + channel, 1))]

            (total,) = loop_carried(self.extents.inner, 1, [splat(0.0, 1, sums.computed)], add, "channel")
            body(group, total)

    @property
    def channels(self) -> int:
        """Of all groups."""
        return self.extents.kept * self.extents.inner


@dataclass(frozen=True)
class GroupFactorsKernel:
    """What channels are multiplied by, and what is added to them, by the moments of parts of an image.

    Moments of parts are combined as by Chan, Golub and LeVeque (1983), of as many elements each. A workgroup
    takes an image.
    """

    moments: GroupMomentsKernel
    finish: tuple[VectorFunction, ...]
    """What makes the factor of a group's channels, but for their weights, of its squared deviations."""
    target: CpuTarget

    @property
    def name(self) -> str:
        extents = self.moments.extents
        return f"winograd_group_factors_{extents.outer}x{extents.kept}x{extents.inner}"

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Factors and addends x images x groups x channels of each."""
        extents = self.moments.extents
        return (2, extents.outer, extents.kept, extents.inner)

    def workgroups(self, sizes: Sizes) -> tuple[Index]:
        """Images."""
        return (Index(self.moments.extents.outer),)

    def emit(self, work: Work, moments: Buffer, weight: Buffer, bias: Buffer, factors: Buffer) -> None:
        """Emits the work of one workgroup at the insertion point; `weight` and `bias` are of all channels."""
        number, extents = work.workgroup[0], self.moments.extents
        computed, fused = moments.computed, self.target.fused_multiply_add
        means, inverses = (scratch((extents.kept,), computed, name) for name in ("means", "inverses"))
        of_groups = vector_width_for(extents.kept, self.target.vector_width)

        def combine(group: Index) -> None:
            mean, deviations = self._combined(moments, number, group, of_groups)
            for function in self.finish:
                deviations = function.emit([deviations], fused, self.target.numbers)
            means.store(mean, group)
            inverses.store(deviations, group)

        for_each_vector(extents.kept, of_groups, combine, "group")
        width = vector_width_for(extents.inner, self.target.vector_width)
        with loop(extents.kept, name="group") as group:
            mean, inverse = (broadcast(each.load_scalar(group), width) for each in (means, inverses))
            first = group * extents.inner

            def store(channel: Index) -> None:
                factor = arith.mulf(inverse, weight.load(first + channel, width))
                moved = arith.mulf(arith.negf(mean), factor)
                addend = arith.addf(moved, bias.load(first + channel, width))
                for place, value in enumerate((factor, addend)):
                    factors.store(value, factors.offset([place, number, group, channel]))

            for_each_vector(extents.inner, width, store, "channel")

    def _combined(
        self, moments: Buffer, number: Index, group: Index, width: int
    ) -> tuple[ir.Value, ir.Value]:
        """Means of some groups, and sums of squared deviations from them."""
        parts, fused = self.moments.parts, self.target.fused_multiply_add
        zeros = splat(0.0, width, moments.computed)

        def load(place: int, part: Index) -> ir.Value:
            return moments.load(moments.offset([place, number, part, group]), width)

        def add_mean(part: Index, before: list[ir.Value]) -> list[ir.Value]:
            return [arith.addf(before[0], load(_MEANS, part))]

        (total,) = loop_carried(parts, 1, [zeros], add_mean, "part")
        mean = arith.divf(total, constant_like(total, parts))

        def add_deviations(part: Index, before: list[ir.Value]) -> list[ir.Value]:
            deviations, between = before
            distance = arith.subf(load(_MEANS, part), mean)
            return [
                arith.addf(deviations, load(_DEVIATIONS, part)),
                multiply_add(distance, distance, between, fused),
            ]

        deviations, between = loop_carried(parts, 1, [zeros, zeros], add_deviations, "part")
        elements = constant_like(between, self.moments.part_rows * self.moments.extents.inner)
        return mean, multiply_add(between, elements, deviations, fused)
