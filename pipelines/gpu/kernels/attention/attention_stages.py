"""Rows of keys and of values in shared memory, and how they come there for matrix units."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir, vector
from iree.winograd.pipelines.emission.control_flow import when
from iree.winograd.pipelines.emission.index import Condition, Index, IndexLike
from iree.winograd.pipelines.emission.numbers.f32 import F32
from iree.winograd.pipelines.gpu.device.memory import QUAD, thread_id
from iree.winograd.pipelines.gpu.device.mma import StageMemory

from .attention import Rows

_MOST_HELD = 4
"""Quads of keys, and as many of values, that a thread has registers for while it multiplies."""


@dataclass(frozen=True)
class SharedRows:
    """Rows in shared memory, so many elements apart."""

    memory: StageMemory
    first: IndexLike
    row_size: int

    def at(self, row: IndexLike, column: IndexLike) -> Index:
        return Index.of(row) * self.row_size + column + self.first

    def behind(self, distance: IndexLike) -> SharedRows:
        """The same in memory so many elements on."""
        return SharedRows(self.memory, Index.of(self.first) + distance, self.row_size)

    def load(self, row: IndexLike, column: IndexLike, count: int) -> list[ir.Value]:
        """So many neighbours, from a multiple of that on."""
        loaded = self.memory.load_neighbours(self.at(row, column), count)
        return [vector.extract(loaded, [], [i]) for i in range(count)]

    def store(self, value: ir.Value, indices: Sequence[Index]) -> None:
        row, quad = indices
        self.memory.store_neighbours(value, self.at(row, quad * QUAD))


class StagedRows:
    """Rows of keys, or of values, on their way to a stage: copied beside the computation, or by registers.

    Behind the last row copies bring it again, whose scores don't count.
    """

    def __init__(self, rows: Rows, shared: SharedRows) -> None:
        self._rows, self._shared = rows, shared
        is_copied = rows.buffer.by_quads and rows.buffer.number is F32
        self._source = rows.buffer.viewed_as(F32.type) if is_copied else None

    def begin(self, first: Index, place: Index) -> list[ir.Value]:
        """Begins to bring the rows from `first` on; gives what `end` takes."""
        if self._source is None:
            return self._rows.load(first) if self._rows.loads <= _MOST_HELD else []
        when(first.less_than(self._rows.count), lambda: self._copy(first, place))
        return []

    def _copy(self, first: Index, place: Index) -> None:
        shared, source = self._shared.behind(place), self._source
        assert source is not None
        for row, quad, exists in self._places():
            at, offset = shared.at(row, quad * QUAD), self._rows.start(first + row) + quad * QUAD
            when(exists, lambda at=at, offset=offset: shared.memory.copy(at, source, offset))  # type: ignore[misc]

    def _places(self) -> Iterator[tuple[Index, Index, Condition]]:
        """As of `Rows`, of threads that stay at one quad of rows: a loop keeps one place of each, not all."""
        (rows, quads), threads = self._rows.extents, self._rows.threads
        together = threads // quads
        if together == 0:
            yield from self._rows.places()
            return
        row, quad = thread_id() // quads, thread_id() % quads
        is_any = Condition(True) if threads % quads == 0 else thread_id().less_than(together * quads)
        for begin in range(0, rows, together):
            is_row = Condition(True) if begin + together <= rows else (row + begin).less_than(rows)
            yield row + begin, quad, is_any & is_row

    def end(self, first: Index, place: Index, begun: Sequence[ir.Value]) -> None:
        """Ends it for this thread, once those of the block before aren't multiplied any more."""
        if self._source is None:
            self._rows.store(begun or self._rows.load(first), self._shared.behind(place))
