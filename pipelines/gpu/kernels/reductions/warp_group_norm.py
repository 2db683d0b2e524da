"""Normalization of groups of channels by one kernel, whose warps have rows of one group each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.pipelines.emission.control_flow import when
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.vectors import broadcast, constant_like
from iree.winograd.pipelines.emission.work import Work
from iree.winograd.pipelines.gpu.device import cluster
from iree.winograd.pipelines.gpu.device.matrix_unit import WARP_THREADS
from iree.winograd.pipelines.gpu.device.memory import GlobalBuffer, SharedScalars, barrier, lane, thread_id
from iree.winograd.pipelines.gpu.device.shuffles import over_threads
from iree.winograd.pipelines.gpu.schedules.warp_group_norm import WarpGroupNormSchedule

from .normalized import HeldGroups
from .statistics import tree_sum


@dataclass(frozen=True)
class WarpGroupNormKernel(HeldGroups[WarpGroupNormSchedule]):
    """An elementwise operation on an image and what normalizes its groups, by one reading of the image.

    All threads hold as many elements, each of one group, in registers. Those of a warp first find their mean,
    then sum squared deviations from it, without memory in between. Warps of a group, of all workgroups of a
    cluster, write both into the shared memory of each of these, and combine them as in `statistics.py`.
    """

    def emit(
        self,
        work: Work,
        image: GlobalBuffer,
        weight: GlobalBuffer,
        bias: GlobalBuffer,
        *others_and_output: GlobalBuffer,
    ) -> None:
        """Emits the work of one workgroup. Others are the operation's further operands, in their order."""
        *others, output = others_and_output
        schedule, extents = self.schedule, self.schedule.extents
        rank, block, outer = work.workgroup
        if schedule.cluster > 1:
            # Others write to this one's memory only when it has begun.
            cluster.arrive()
        of_group, group = thread_id() % schedule.group_threads, thread_id() // schedule.group_threads
        across, along = of_group % schedule.across, of_group // schedule.across
        column = (block * schedule.groups + group) * extents.inner + across * schedule.width
        first = outer * extents.rows + rank * schedule.rows + along
        pixels = [first + i * schedule.along for i in range(schedule.held)]
        held = [image.load(image.origin + each * self.row + column, schedule.width) for each in pixels]
        scales, shifts = (each.load(column, schedule.width) for each in (weight, bias))
        mean, deviations = _Moments.allocate(schedule, image.computed).of_group(held, rank, group)
        inverse = broadcast(self.finish.emit(deviations), schedule.width)
        factors = arith.mulf(inverse, scales)
        addends = arith.addf(arith.mulf(arith.negf(broadcast(mean, schedule.width)), factors), shifts)
        for pixel, value in zip(pixels, held, strict=True):
            place = pixel * (extents.kept * extents.inner) + column
            output.store(self.normalized.computed(value, factors, addends, others, place), place)


@dataclass(frozen=True)
class _Moments:
    """What warps of a cluster's workgroups know of their groups, in the shared memory of each of these."""

    schedule: WarpGroupNormSchedule
    means: SharedScalars
    """`groups x parts`."""
    deviations: SharedScalars

    @staticmethod
    def allocate(schedule: WarpGroupNormSchedule, element: ir.Type) -> _Moments:
        extents = schedule.groups, schedule.parts
        means, deviations = (
            SharedScalars.allocate(extents, name, element) for name in ("means", "deviations")
        )
        return _Moments(schedule, means, deviations)

    def of_group(self, held: Sequence[ir.Value], rank: Index, group: Index) -> tuple[ir.Value, ir.Value]:
        """Mean and squared deviations of the group of a thread that holds so many vectors."""
        schedule = self.schedule
        count = schedule.held * schedule.width * WARP_THREADS
        total = over_threads(_sum_of_lanes(held), WARP_THREADS, arith.addf)
        mean = arith.mulf(total, constant_like(total, 1 / count))
        squares = over_threads(_squares(held, mean), WARP_THREADS, arith.addf)
        number = thread_id() % WARP_THREADS
        part = rank * schedule.group_warps + thread_id() % schedule.group_threads // WARP_THREADS
        if schedule.cluster > 1:
            cluster.wait()

            def tell() -> None:
                for memory, value in ((self.means, mean), (self.deviations, squares)):
                    cluster.ClusterScalars(memory).store(value, number, [group, part])

            when(number.less_than(schedule.cluster), tell)
            cluster.arrive()
            cluster.wait()
        else:

            def store() -> None:
                for memory, value in ((self.means, mean), (self.deviations, squares)):
                    memory.store(value, [group, part])

            when(number.equals(0), store)
            barrier()
        return self._combined(group, count)

    def _combined(self, group: Index, count: int) -> tuple[ir.Value, ir.Value]:
        """Of all parts of a group, which are of so many elements each."""
        parts = self.schedule.parts
        # Of few parts as many neighbours of a warp have all, each power of two of them the same.
        threads = min(WARP_THREADS, 1 << (parts - 1).bit_length())
        number = thread_id() % threads
        places = [(number + i, i + threads <= parts) for i in range(0, parts, threads)]

        def loaded(memory: SharedScalars) -> list[ir.Value]:
            return [memory.load([group, each.minimum(parts - 1)]) for each, _ in places]

        def summed(values: Sequence[ir.Value]) -> ir.Value:
            inside = [
                value
                if within
                else arith.select(place.less_than(parts).value, value, constant_like(value, 0.0))
                for value, (place, within) in zip(values, places, strict=True)
            ]
            return over_threads(reduce(arith.addf, inside), threads, arith.addf)

        means, deviations = loaded(self.means), loaded(self.deviations)
        total = summed(means)
        mean = arith.mulf(total, constant_like(total, 1 / parts))
        differences = [arith.subf(each, mean) for each in means]
        between = [arith.mulf(arith.mulf(each, each), constant_like(each, count)) for each in differences]
        return mean, summed([arith.addf(*each) for each in zip(deviations, between, strict=True)])


def _sum_of_lanes(values: Sequence[ir.Value]) -> ir.Value:
    total = tree_sum(values)
    width = ir.VectorType(total.type).shape[0]
    return tree_sum([lane(total, i) for i in range(width)])


def _squares(held: Sequence[ir.Value], mean: ir.Value) -> ir.Value:
    width = ir.VectorType(held[0].type).shape[0]
    means = broadcast(mean, width)
    differences = [arith.subf(each, means) for each in held]
    return _sum_of_lanes([arith.mulf(each, each) for each in differences])
