"""Normalization of groups of channels by one kernel, whose workgroups hold the image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.pipelines.emission.control_flow import loop_carried, when
from iree.winograd.pipelines.emission.element_function import ElementFunction
from iree.winograd.pipelines.emission.index import Condition, Index
from iree.winograd.pipelines.emission.vectors import broadcast, constant_like
from iree.winograd.pipelines.emission.work import Work
from iree.winograd.pipelines.gpu.device import cluster
from iree.winograd.pipelines.gpu.device.memory import (
    QUAD,
    GlobalBuffer,
    SharedBuffer,
    SharedScalars,
    barrier,
    lane,
    quad_of,
    quad_or_zero,
    thread_id,
)
from iree.winograd.pipelines.gpu.schedules.group_norm import GroupNormSchedule

from .normalized import HeldGroups
from .statistics import tree_sum, zeros

_RUNNING_SUMS = 2
"""Of a thread, whose additions don't wait for each other."""
_Store = Callable[[Index, ir.Value], None]
"""What a thread does with a sum of the group of that number in its workgroup."""


@dataclass(frozen=True)
class GroupNormKernel(HeldGroups[GroupNormSchedule]):
    """An elementwise operation on an image and what normalizes its groups, by one reading of the image.

    Of each group first the mean is known, then squared deviations from it are summed: of the rows of a
    workgroup. Those of a cluster are combined as in `statistics.py`.
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
        quad, along = thread_id() % schedule.across, thread_id() // schedule.across
        column = block * schedule.columns + quad * QUAD
        rows = [self._row(rank, along, i) for i in range(schedule.held)]
        pixels = [outer * extents.rows + row.minimum(extents.rows - 1) for row, _ in rows]
        places = [pixel * (extents.kept * extents.inner) + column for pixel in pixels]
        moments = _GroupMoments.allocate(schedule, image.computed)
        exist = [exists for _, exists in rows]
        held = _HeldQuads.allocate(schedule, image.computed)
        sums = _RunningSums()
        for pixel, exists in zip(pixels, exist, strict=True):
            value = image.load(image.origin + pixel * self.row + column)
            held.add(value)
            sums.add(value, exists)
        scales, shifts = weight.load(column), bias.load(column)
        moments.find(sums.total, held, exist, rank, quad, along, self.finish)
        inverses, means = moments.of_lanes(quad)
        factors = arith.mulf(inverses, scales)
        addends = arith.addf(arith.mulf(arith.negf(means), factors), shifts)
        for number, (place, exists) in enumerate(zip(places, exist, strict=True)):
            result = self.normalized.computed(held.value(number), factors, addends, others, place)
            output.store(result, place, exists)
        if schedule.cluster > 1:
            cluster.wait()

    def _row(self, rank: Index, along: Index, number: int) -> tuple[Index, Condition]:
        """One of a thread's, and whether it has that."""
        schedule = self.schedule
        of_workgroup = along + number * schedule.along
        row = rank * schedule.rows + of_workgroup
        exists = Condition(True)
        has_idle_threads = schedule.threads > schedule.across * schedule.along
        if has_idle_threads or (number + 1) * schedule.along > schedule.rows:
            exists = of_workgroup.less_than(schedule.rows)
        if has_idle_threads and schedule.held > 1:
            exists = exists & along.less_than(schedule.along)
        if schedule.rows * schedule.cluster > schedule.extents.rows:
            exists = exists & row.less_than(schedule.extents.rows)
        return row, exists


@dataclass(frozen=True)
class _GroupMoments:
    """Means of a workgroup's groups, and what is computed of their deviations, in its shared memory."""

    schedule: GroupNormSchedule
    partial: SharedScalars
    """Sums of a thread's units of lanes, `along x units`, the last of a row unused."""
    slices: SharedScalars
    """Sums of some threads, `groups x slices`, the last of a row unused."""
    own: SharedScalars
    """Mean and deviations of the workgroup's rows, each of all groups."""
    found: SharedScalars
    """Inverse and mean of the groups."""

    @staticmethod
    def allocate(schedule: GroupNormSchedule, element: ir.Type) -> _GroupMoments:
        groups = schedule.groups
        of_threads, of_slices = schedule.sum_extents
        return _GroupMoments(
            schedule,
            SharedScalars.allocate(of_threads, "partial", element),
            SharedScalars.allocate(of_slices, "slices", element),
            SharedScalars.allocate((2, groups), "own", element),
            SharedScalars.allocate((2, groups), "found", element),
        )

    def find(
        self,
        lanes: ir.Value,
        held: _HeldQuads,
        exist: Sequence[Condition],
        rank: Index,
        quad: Index,
        along: Index,
        finish: ElementFunction,
    ) -> None:
        """Finds them of the quads that this thread holds, whose sum is `lanes`, for all threads."""
        schedule = self.schedule
        count = self._rows_of(rank).value
        rows = arith.uitofp(self._element, arith.index_cast(ir.IntegerType.get_signless(32), count))
        number = arith.mulf(rows, constant_like(rows, schedule.extents.inner))

        def store_mean(group: Index, total: ir.Value) -> None:
            self.own.store(arith.divf(total, number), [Index(0), group])

        self._sum(lanes, quad, along, store_mean)
        means = self._of_lanes(self.own, 0, quad)
        squares = _RunningSums()
        for number, exists in enumerate(exist):
            difference = arith.subf(held.value(number), means)
            squares.add(arith.mulf(difference, difference), exists)

        def store_found(group: Index, deviations: ir.Value) -> None:
            if schedule.cluster > 1:
                self.own.store(deviations, [Index(1), group])
            else:
                self._store_found(group, self.own.load([Index(0), group]), deviations, finish)

        self._sum(squares.total, quad, along, store_found, synchronizes=schedule.cluster == 1)
        if schedule.cluster > 1:
            cluster.arrive()
            cluster.wait()
            group = thread_id()
            when(group.less_than(schedule.groups), lambda: self._combine(group, finish))
            # Until all have read what it found no workgroup may end.
            cluster.arrive()
            barrier()

    def of_lanes(self, quad: Index) -> tuple[ir.Value, ir.Value]:
        """Inverses and means of a thread's channels."""
        return self._of_lanes(self.found, 0, quad), self._of_lanes(self.found, 1, quad)

    @property
    def _element(self) -> ir.Type:
        return ir.MemRefType(self.found.memref.type).element_type

    def _rows_of(self, rank: Index) -> Index:
        """Of a workgroup of the cluster."""
        rows = self.schedule.rows
        if rows * self.schedule.cluster == self.schedule.extents.rows:
            return Index(rows)
        return (Index(self.schedule.extents.rows) - rank * rows).minimum(rows)

    def _sum(
        self,
        lanes: ir.Value,
        quad: Index,
        along: Index,
        store: _Store,
        *,
        synchronizes: bool = True,
    ) -> None:
        """Has a thread of each group store the sum of its lanes of all threads."""
        schedule = self.schedule
        unit, slices = schedule.unit, schedule.slices

        def store_own() -> None:
            elements = [lane(lanes, i) for i in range(QUAD)]
            for i in range(0, QUAD, unit):
                total = reduce(arith.addf, elements[i : i + unit])
                self.partial.store(total, [along, quad * (QUAD // unit) + i // unit])

        when(along.less_than(schedule.along), store_own)
        barrier()
        group, number = thread_id() // slices, thread_id() % slices

        def add_slice() -> None:
            self.slices.store(self._slice(group, number), [group, number])

        when(group.less_than(schedule.groups), add_slice)
        barrier()

        def finish() -> None:
            parts = [self.slices.load([thread_id(), Index(i)]) for i in range(slices)]
            store(thread_id(), tree_sum(parts))

        when(thread_id().less_than(schedule.groups), finish)
        if synchronizes:
            barrier()

    def _slice(self, group: Index, number: Index) -> ir.Value:
        """The sum over every so many-th row of threads, of all units of a group."""
        schedule, slices = self.schedule, self.schedule.slices
        units = schedule.extents.inner // schedule.unit

        def add(i: Index, sums: list[ir.Value]) -> list[ir.Value]:
            row = number + i * slices

            def add_unit(unit: Index, sums: list[ir.Value]) -> list[ir.Value]:
                return [arith.addf(sums[0], self.partial.load([row, group * units + unit]))]

            return loop_carried(units, 1, sums, add_unit, "unit")

        rows = (Index(schedule.along + slices - 1) - number) // slices
        if schedule.along % slices == 0:
            rows = Index(schedule.along // slices)
        (total,) = loop_carried(rows, 1, [zeros(1, self._element)], add, "row")
        return total

    def _combine(self, group: Index, finish: ElementFunction) -> None:
        """Mean and deviations of a group in all workgroups of the cluster."""
        schedule = self.schedule
        memory = cluster.ClusterScalars(self.own)
        count = schedule.extents.summed
        known = [self._rows_of(Index(i)).known for i in range(schedule.cluster)]
        counts = [rows * schedule.extents.inner for rows in known if rows is not None]
        means, deviations = (
            [memory.load(i, [Index(part), group]) for i in range(schedule.cluster)] for part in range(2)
        )
        shares = [
            arith.mulf(each, constant_like(each, number / count))
            for each, number in zip(means, counts, strict=True)
        ]
        mean = tree_sum(shares)
        differences = [arith.subf(each, mean) for each in means]
        between = [
            arith.mulf(arith.mulf(each, each), constant_like(each, number))
            for each, number in zip(differences, counts, strict=True)
        ]
        self._store_found(group, mean, tree_sum([*deviations, *between]), finish)

    def _store_found(
        self, group: Index, mean: ir.Value, deviations: ir.Value, finish: ElementFunction
    ) -> None:
        self.found.store(finish.emit(deviations), [Index(0), group])
        self.found.store(mean, [Index(1), group])

    def _of_lanes(self, memory: SharedScalars, part: int, quad: Index) -> ir.Value:
        """What `memory` has of the group of each lane."""
        inner = self.schedule.extents.inner
        if inner % QUAD == 0:
            return broadcast(memory.load([Index(part), quad // (inner // QUAD)]), QUAD)
        groups = [(quad * QUAD + i) // inner for i in range(QUAD)]
        return quad_of([memory.load([Index(part), group]) for group in groups])


@dataclass
class _RunningSums:
    """Sums of quads, one after the other: registers are few."""

    sums: list[ir.Value] = field(default_factory=list)
    count: int = 0

    def add(self, value: ir.Value, exists: Condition) -> None:
        """Adds a quad, if it exists."""
        addend = quad_or_zero(exists, value)
        if self.count < _RUNNING_SUMS:
            self.sums.append(addend)
        else:
            place = self.count % _RUNNING_SUMS
            self.sums[place] = arith.addf(self.sums[place], addend)
        self.count += 1

    @property
    def total(self) -> ir.Value:
        return tree_sum(self.sums)


@dataclass(frozen=True)
class _HeldQuads:
    """A thread's quads: the first ones in shared memory, of its own, others in registers."""

    memory: SharedBuffer | None
    shared: int
    """Quads in memory."""
    values: list[ir.Value]
    """All of them, as they came."""

    @staticmethod
    def allocate(schedule: GroupNormSchedule, element: ir.Type) -> _HeldQuads:
        extents = schedule.shared, schedule.threads
        memory = SharedBuffer.allocate(extents, "held", element) if schedule.shared else None
        return _HeldQuads(memory, schedule.shared, [])

    def add(self, value: ir.Value) -> None:
        """Holds a further quad."""
        if self.memory is not None and len(self.values) < self.shared:
            self.memory.store(value, [len(self.values), thread_id()])
        self.values.append(value)

    def value(self, number: int) -> ir.Value:
        """One of them, behind a barrier: registers would hold what was stored until then otherwise."""
        if self.memory is None or number >= self.shared:
            return self.values[number]
        return self.memory.load([number, thread_id()])
