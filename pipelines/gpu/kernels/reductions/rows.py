"""Rows of neighbours that threads of a workgroup hold in registers, and what these reduce them to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import arith, ir, vector
from iree.winograd.pipelines.emission.control_flow import when
from iree.winograd.pipelines.emission.index import Condition, Index, ceildiv
from iree.winograd.pipelines.emission.vectors import broadcast, constant_like
from iree.winograd.pipelines.emission.work import Work
from iree.winograd.pipelines.gpu.device.matrix_unit import WARP_THREADS
from iree.winograd.pipelines.gpu.device.memory import QUAD, GlobalBuffer, SharedScalars, barrier, thread_id
from iree.winograd.pipelines.gpu.device.shuffles import over_threads

ROW_THREADS = 256
_HELD = 4
"""Loads of a thread, of a quad each where rows are whole quads: as many as are on their way at a time. Of
octets half as many."""
_MOST_HELD = 8
"""The same of the longest rows, whose elements have registers still."""

Combination = Callable[[ir.Value, ir.Value], ir.Value]


@dataclass(frozen=True)
class SharedRows:
    """Rows of `length` elements, each shared by a power of two of threads of a workgroup."""

    length: int
    together: int = QUAD
    """Elements that a thread loads at a time where rows are whole ones of so many: quads, or octets."""
    by_warps: bool = False
    """Whether threads of a warp of 32 tell each other what they combine, without memory in between."""

    @property
    def width(self) -> int:
        """Elements that a thread loads at a time."""
        return self.together if self.length % self.together == 0 else 1

    @property
    def threads(self) -> int:
        """Of a row: at most as many as a workgroup has, and as few as hold all of it."""
        loads = ceil_div(self.length, self.width)
        held = _HELD * QUAD // self.together
        return min(ROW_THREADS, 1 << max(0, (ceil_div(loads, held) - 1).bit_length()))

    @property
    def rows(self) -> int:
        """Of a workgroup."""
        return ROW_THREADS // self.threads

    @property
    def held(self) -> int:
        """Loads of a thread."""
        return ceil_div(self.length, self.width * self.threads)

    @property
    def fits(self) -> bool:
        """Whether registers hold the rows."""
        return self.held <= _MOST_HELD

    def workgroups(self, count: Index) -> tuple[Index]:
        """For so many rows."""
        return (ceildiv(count, self.rows),)

    def place(self, work: Work, count: Index) -> PlacedRow:
        """The row of this thread, of so many; the last threads may have the last row again."""
        number = work.workgroup[0] * self.rows + thread_id() // self.threads
        return PlacedRow(self, number.minimum(count - 1), number.less_than(count))


@dataclass(frozen=True)
class PlacedRow:
    """What a thread knows of the row that it has a share of."""

    shared: SharedRows
    number: Index
    exists: Condition

    @property
    def _thread(self) -> Index:
        return thread_id() % self.shared.threads

    def columns(self) -> list[tuple[Index, Condition]]:
        """Where the loads of this thread begin in a row, and whether they are within."""
        shared = self.shared
        columns = []
        for i in range(shared.held):
            column = (self._thread + i * shared.threads) * shared.width
            last = (i + 1) * shared.threads * shared.width
            within = Condition(True) if last <= shared.length else column.less_than(shared.length)
            columns.append((column.minimum(shared.length - shared.width), within))
        return columns

    def load(
        self, source: GlobalBuffer, begin: Index, place_of: Callable[[Index], Index] = lambda place: place
    ) -> list[ir.Value]:
        """This thread's share of what is from `begin` on; behind a row's end some of its elements again.

        `place_of` gives the place in memory of the first element of a load.
        """
        return [self._load(source, place_of(begin + column)) for column, _ in self.columns()]

    def _load(self, source: GlobalBuffer, place: Index) -> ir.Value:
        width = self.shared.width
        return source.load_scalar(place) if width == 1 else source.load(place, width)

    def store(self, values: Sequence[ir.Value], output: GlobalBuffer) -> None:
        """Writes this thread's share of its row."""
        begin = self.number * self.shared.length
        for value, (column, within) in zip(values, self.columns(), strict=True):
            exists, place = self.exists & within, begin + column
            if self.shared.width == 1:
                when(exists, lambda value=value, place=place: output.store_scalar(value, place))  # type: ignore[misc]
            else:
                output.store(value, place, exists)

    def reduced(
        self, values: Sequence[ir.Value], neutral: float, combine: Combination, memory: SharedScalars
    ) -> ir.Value:
        """What all elements of the row are combined to: the same for each of its threads, as `values` are.

        `memory` is of `ROW_THREADS` elements, which no other thread reads or writes any more.
        """
        shared = self.shared
        inside = [
            _selected(within, value, neutral)
            for value, (_, within) in zip(values, self.columns(), strict=True)
        ]
        own = reduce(combine, inside)
        if shared.width > 1:
            own = reduce(combine, [vector.extract(own, [], [i]) for i in range(shared.width)])
        result = (self._by_warps if shared.by_warps else self._by_memory)(own, combine, memory)
        return result if shared.width == 1 else broadcast(result, shared.width)

    def _by_warps(self, own: ir.Value, combine: Combination, memory: SharedScalars) -> ir.Value:
        """What the shares of a row's threads are combined to: first those of each warp."""
        threads = self.shared.threads
        own = over_threads(own, min(threads, WARP_THREADS), combine)
        if threads <= WARP_THREADS:
            return own
        warp = thread_id() // WARP_THREADS
        when((thread_id() % WARP_THREADS).equals(0), lambda: memory.store(own, [warp]))
        barrier()
        first = warp - self._thread // WARP_THREADS
        return reduce(combine, [memory.load([first + i]) for i in range(threads // WARP_THREADS)])

    def _by_memory(self, own: ir.Value, combine: Combination, memory: SharedScalars) -> ir.Value:
        """The same where warps have other numbers of threads."""
        memory.store(own, [thread_id()])
        barrier()
        remaining = self.shared.threads
        while remaining > 1:
            remaining //= 2
            distance = remaining

            def halve(distance: int = distance) -> None:
                here = memory.load([thread_id()])
                memory.store(combine(here, memory.load([thread_id() + distance])), [thread_id()])

            when(self._thread.less_than(distance), halve)
            barrier()
        return memory.load([thread_id() - self._thread])


def row_memory(reductions: int, element: ir.Type) -> list[SharedScalars]:
    """What threads exchange in so many reductions of such elements, each in memory of its own."""
    return [SharedScalars.allocate((ROW_THREADS,), f"exchange_{i}", element) for i in range(reductions)]


def _selected(condition: Condition, value: ir.Value, otherwise: float) -> ir.Value:
    if condition.known:
        return value
    chosen = condition.value
    if isinstance(value.type, ir.VectorType):
        # Vulkan's SPIR-V before 1.4 selects vectors by vectors only.
        width = ir.VectorType(value.type).shape[0]
        chosen = vector.broadcast(ir.VectorType.get([width], ir.IntegerType.get_signless(1)), chosen)
    return arith.select(chosen, value, constant_like(value, otherwise))
