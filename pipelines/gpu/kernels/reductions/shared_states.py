"""What the threads of a workgroup know of elements that they added, merged through shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iree.winograd.dialect.bindings import arith, ir, vector
from iree.winograd.pipelines.emission.control_flow import when
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.gpu.device.memory import SharedScalars, barrier, thread_id

from .statistics import State, Statistic

SUMMING_THREADS = 256
"""Of a workgroup."""
_BANKS = 32
"""Of shared memory."""
_JOINED_ROWS = 8
"""Of states of as many elements, that a thread joins at a time."""


@dataclass(frozen=True)
class SharedStates:
    """The states of a workgroup's threads, `along x columns`, those of a column to be merged.

    Of neighbours a thread has `width` columns, the first ones of all threads lie beside each other, behind
    them the second ones: threads of a warp store to different banks.
    """

    statistic: Statistic
    along: int
    across: int
    width: int
    components: Sequence[SharedScalars]
    """Without the number of elements where that is known."""
    element: ir.Type
    count: int | None = None
    """Elements that the state of each thread is of, where all have as many: nothing divides by it then."""

    @staticmethod
    def allocate(
        statistic: Statistic,
        along: int,
        across: int,
        element: ir.Type,
        width: int = 1,
        count: int | None = None,
    ) -> SharedStates:
        rows = across * (width + 1 if width > 1 and across < _BANKS else width)
        stored = statistic.components - (statistic.counts and count is not None)
        components = [SharedScalars.allocate((along, rows), f"component_{i}", element) for i in range(stored)]
        return SharedStates(statistic, along, across, width, components, element, count)

    @staticmethod
    def of_columns(
        statistic: Statistic,
        state: State,
        along: int,
        across: int,
        width: int,
        place: tuple[Index, Index],
        element: ir.Type,
        count: int | None = None,
    ) -> SharedStates:
        """The merged `state` of so many threads along each column, in the first row.

        Those across have `width` columns each; `place` is a thread's first column, and its row.
        """
        column, row = place
        shared = SharedStates.allocate(statistic, along, across, element, width, count)
        for lane, each in enumerate(lanes_of(state, width)):
            shared.store(each, row, column + lane)
        shared.merge(row, column)
        return shared

    def merged(self, column: Index) -> State:
        """That of all threads along a column, once they are merged."""
        return self._load(Index(0), self._place(column), self.along)

    def store(self, state: State, row: Index, column: Index) -> None:
        self._store(state, row, self._place(column))

    def merge(self, row: Index, column: Index) -> None:
        """Merges columns into their first row; each thread has stored those from `column` on at a row."""
        barrier()
        remaining = self.along
        while remaining > 1:
            rows = min(remaining, _JOINED_ROWS) if self._are_alike else 2
            merged, remaining = self.along // remaining, remaining // rows
            if self._are_alike:
                self._join(rows, remaining, merged)
            else:
                self._halve(row, column, remaining)
            barrier()

    def merged_columns(self, first: Index, count: int) -> State:
        """The state of neighbouring columns, merged, which are of as many elements each."""
        if count == 1:
            return self.merged(first)
        return self.statistic.join(count, lambda i: self.merged(first + i), self.element)

    @property
    def _are_alike(self) -> bool:
        """Whether states are of as many elements each, or it doesn't matter."""
        return self.count is not None or not self.statistic.counts

    def _join(self, rows: int, kept: int, threads: int) -> None:
        """Joins every `kept`-th row into the first `kept` ones, so many at a time, by all threads at once.

        States are those of so many `threads`. None reads what another one writes.
        """
        columns = self.across * self.width
        for begin in range(0, columns * kept, SUMMING_THREADS):
            number = thread_id() + begin
            row, place = number // columns, number % columns

            def join(row: Index = row, place: Index = place) -> None:
                def load(i: Index) -> State:
                    return self._load(row + i * kept, place, threads)

                self._store(self.statistic.join(rows, load, self.element), row, place)

            when(number.less_than(columns * kept), join)

    def _halve(self, row: Index, column: Index, distance: int) -> None:
        """Merges rows into those that are so far before them."""

        def halve() -> None:
            for lane in range(self.width):
                place = self._place(column + lane)
                states = [self._load(each, place, 1) for each in (row, row + distance)]
                self._store(self.statistic.merge(*states), row, place)

        when(row.less_than(distance), halve)

    def _load(self, row: Index, place: Index, threads: int) -> State:
        """That of so many threads."""
        stored = [each.load([row, place]) for each in self.components]
        if len(stored) == self.statistic.components:
            return stored
        assert self.count is not None
        return [arith.constant(self.element, float(self.count * threads)), *stored]

    def _store(self, state: State, row: Index, place: Index) -> None:
        stored = state[len(state) - len(self.components) :]
        for component, value in zip(self.components, stored, strict=True):
            component.store(value, [row, place])

    def _place(self, column: Index) -> Index:
        """Where a column is in a row."""
        return column if self.width == 1 else column % self.width * self.across + column // self.width


def lanes_of(state: State, width: int) -> list[State]:
    """A state of each lane."""
    if width == 1:
        return [state]
    return [
        [vector.extract(each, [], [i]) if isinstance(each.type, ir.VectorType) else each for each in state]
        for i in range(width)
    ]
