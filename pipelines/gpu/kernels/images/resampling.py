"""The GPU kernel of images that are resampled along some dimensions: resized, padded by their own pixels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

import numpy as np
import numpy.typing as npt
from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.passes.match.pixels.resampling import Axis
from iree.winograd.pipelines.emission.control_flow import when
from iree.winograd.pipelines.emission.index import Condition, Index, unflatten
from iree.winograd.pipelines.emission.vectors import broadcast, multiply_add, splat
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.gpu.device.memory import QUAD, GlobalBuffer, lane, quad_of
from iree.winograd.pipelines.gpu.kernels.winograd.transforms import ThreadGrid

from .tap_line import TapLine
from .tap_window import TapWindow

_THREADS = 256
_OCTET_THREADS = 128
"""Of a workgroup whose threads have octets: they compute more, and workgroups of fewer end at more times."""
MOST_TAPS = 16
"""Of all dimensions together: as many elements as a thread loads before it stores one."""
_NEIGHBOURS = 8
"""Quads of a pixel that neighbouring threads take: a cache line. Others take pixels beside theirs."""
_COLUMN_NEIGHBOURS = 64
"""The same of pixels in a row where these are neighbours in memory."""
_MOST_ROWS = 4
"""Of a thread, below each other: rows that are blended have most of what they read in common."""
_MOST_SINGLE_ROWS = 8
"""The same where a thread has single elements, or octets, of rows that it blends once for all of them."""
_MOST_COLUMNS = 2
"""Of a thread, beside each other, of sums of more elements than it holds of several rows."""
_MANY_THREADS = 1 << 17
"""As many as keep the memory of large GPUs busy: further rows are for threads that have one already."""


@dataclass(frozen=True)
class TapTable:
    """How the taps of each element along a dimension lie in memory: their positions, then their weights.

    Both are f32, and begin quads; those of two taps share one. A single tap has a weight of 1, which isn't
    there.
    """

    taps: int

    @property
    def by_quads(self) -> bool:
        return self.taps > 1

    @property
    def width(self) -> int:
        """Numbers of an element."""
        return 2 * self._weights if self.by_quads else 1

    @property
    def _weights(self) -> int:
        """Where weights begin."""
        return self.taps if 2 * self.taps == QUAD else ceil_div(self.taps, QUAD) * QUAD

    def of(self, axis: Axis) -> npt.NDArray[np.float32]:
        """The table of an axis, size x width."""
        table = np.zeros((axis.size, self.width), np.float32)
        table[:, : self.taps] = axis.indices.T
        if self.by_quads:
            table[:, self._weights : self._weights + self.taps] = axis.weights.T
        return table

    def load(self, table: GlobalBuffer, element: Index) -> tuple[list[Index], list[ir.Value] | None]:
        """Where the taps of an element are, and their weights."""
        if not self.by_quads:
            return [_position(table.load_scalar(element))], None
        quads = [table.load(element * self.width + begin) for begin in range(0, self.width, QUAD)]
        numbers = [lane(quad, i) for quad in quads for i in range(QUAD)]
        weights = numbers[self._weights : self._weights + self.taps]
        return [_position(each) for each in numbers[: self.taps]], weights


@dataclass(frozen=True)
class _Taps:
    """What is read along a dimension: of each tap a position, or one for each lane, and the weight."""

    positions: list[list[Index]]
    weights: list[ir.Value] | None = None


@dataclass(frozen=True)
class ResamplingKernel:
    """Weighted sums of elements of an image, at positions and with weights that tables have.

    A thread has a quad, or octet, of one to four rows below each other: of channels where the last dimension
    is read as it is, else of neighbouring elements of a row, which it loads singly. Where these are no whole
    quads it has one element of a row. Of sums of many elements, as cubic ones, and of octets it blends the
    other dimensions of each row of the image once for all of its rows, up to eight, if blocks of these read
    alike; of the former it has two columns then. Weights that blocks share are constants.
    """

    extents: tuple[int, ...]
    """Of the result, three or more."""
    taps: tuple[tuple[int, int], ...]
    """The dimensions that are resampled, in order, with the number of taps of each."""
    together: int = QUAD
    """Elements that a thread loads and stores at a time where rows are whole ones of so many, and neighbours
    in the image: quads, or octets of half precision."""
    singles: int = 1
    """Neighbours in the result that a thread gathers and stores at once, where rows aren't whole ones."""
    window: TapWindow | None = None
    """What the rows of a thread read, where these are blended once for all of them."""
    columns_window: TapWindow | None = None
    """The same of its columns."""
    lines: tuple[tuple[int, TapLine], ...] = ()
    """By dimensions, where positions are such: threads then don't wait for tables before they load."""

    def stored_by(self, together: int) -> ResamplingKernel:
        """With as many neighbours of a thread as are stored at once, of rows of so many that aren't whole."""
        singles = 1 if self.width > 1 or prod(self.extents[-2:]) % together else together
        return replace(self, singles=singles)

    def of_image(self, axes: Mapping[int, Axis], source: Sequence[int]) -> ResamplingKernel:
        """That of an image of the shape `source` by `axes`, with windows and lines where they are of use."""
        lines = ((dimension, TapLine.of(axis, source[dimension])) for dimension, axis in sorted(axes.items()))
        known = tuple((dimension, line) for dimension, line in lines if line is not None)
        return replace(self._sharing(axes, source), lines=known)

    def _sharing(self, axes: Mapping[int, Axis], source: Sequence[int]) -> ResamplingKernel:
        """With windows."""
        axis = axes.get(self._rows)
        # Threads that have several rows of quads by themselves read much of the same from their caches.
        if axis is None or axis.taps == 1 or (self._rows_together > 1 and self.width == QUAD):
            return self
        most = _MOST_ROWS if self.width == QUAD else _MOST_SINGLE_ROWS
        window = _window(axis, source[self._rows], min(most, self._most_rows))
        columns = axes.get(self._columns)
        if window is None or columns is None or self._rows_together > 1 or not self.reads_quads:
            return replace(self, window=window)
        beside = _window(columns, source[self._columns], _MOST_COLUMNS)
        return replace(self, window=window, columns_window=beside)

    def read_by(self, axes: Mapping[int, Axis]) -> dict[int, Axis]:
        """What tables are of."""
        windows, tables = self._windows, self._tables
        of_windows = {dimension: windows[dimension].axis(axes[dimension]) for dimension in windows}
        read = {**axes, **{dimension: axis for dimension, axis in of_windows.items() if axis is not None}}
        return {dimension: read[dimension] for dimension, _ in tables}

    @property
    def name(self) -> str:
        return f"winograd_resampled_{'x'.join(map(str, self.extents))}"

    @property
    def width(self) -> int:
        """Elements that a thread stores at a time, of whole rows of such; else it has single ones."""
        together = QUAD if self._gathers else self.together
        return together if self.extents[-1] % together == 0 else 1

    @property
    def together_stored(self) -> int:
        """Elements that a thread stores at a time."""
        return max(self.width, self.singles)

    @property
    def threads(self) -> int:
        """Of a workgroup."""
        return _OCTET_THREADS if self.width > QUAD else _THREADS

    @property
    def reads_quads(self) -> bool:
        """Whether the image is read by quads."""
        return self.width > 1 and not self._gathers

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index]:
        """Blocks of rows and pixels, and of what neighbouring threads take of one."""
        return self._grid.workgroups(Index(prod(self._outer)))

    def emit(self, work: Work, image: GlobalBuffer, *tables_and_output: GlobalBuffer) -> None:
        """Emits the work of one workgroup."""
        *buffers, output = tables_and_output
        windows = self._windows
        tables = {
            dimension: (TapTable(count), buffer)
            for (dimension, count), buffer in zip(self._tables, buffers, strict=True)
        }
        places, exists = self._places(work)

        def compute() -> None:
            first = places[0]
            others = {
                dimension: self._taps(dimension, lanes, tables)
                for dimension, lanes in enumerate(self._lanes(places))
                if dimension != self._rows and dimension not in windows
            }
            rows = self._along(self._rows, self.rows, first, tables)
            columns = None
            if self.columns_window is not None:
                columns = self._along(self._columns, self.columns_window.block, first, tables)
            for row, of_row in enumerate(self._values(image, others, rows, columns, first)):
                for column, value in enumerate(of_row):
                    at = list(first)
                    at[self._rows] += row
                    at[self._columns] += column
                    offset = output.offset(at)
                    if self.together_stored == 1:
                        output.store_scalar(value, offset)
                    else:
                        output.store(value, offset)

        when(exists, compute)

    def _lanes(self, places: Sequence[Sequence[Index]]) -> list[list[Index]]:
        """Along each dimension the element that all lanes read by, or one for each of them.

        Neighbours of a thread have any columns and channels; those that are gathered are of one row.
        """
        last = len(self.extents) - 1
        if self._gathers:
            *outer, element = ([each] for each in places[0])
            return [*outer, [element[0] + i for i in range(self.width)]]
        differing = (last - 1, last) if self.singles > 1 else ()
        return [
            [place[dimension] for place in places] if dimension in differing else [places[0][dimension]]
            for dimension in range(last + 1)
        ]

    @property
    def rows(self) -> int:
        """Of a thread."""
        if self.window is not None:
            return self.window.block
        return max(1, min(self._rows_together, self._most_rows))

    @property
    def _windows(self) -> dict[int, TapWindow]:
        """By their dimensions."""
        both = ((self._rows, self.window), (self._columns, self.columns_window))
        return {dimension: window for dimension, window in both if window is not None}

    @property
    def _tables(self) -> list[tuple[int, int]]:
        """The dimensions with tables, in order, and the number of taps of each."""
        windows, lines = self._windows, dict(self.lines)
        known = {dimension for dimension, window in windows.items() if window.weights is not None}
        known |= {dimension for dimension, count in self.taps if count == 1 and dimension in lines}
        return [(dimension, count) for dimension, count in self.taps if dimension not in known]

    @property
    def _rows_together(self) -> int:
        """Of which a thread loads all that they read before it stores one."""
        return max(1, min(_MOST_ROWS, MOST_TAPS // prod(count for _, count in self.taps)))

    @property
    def _most_rows(self) -> int:
        """With which there are as many threads as keep memory busy."""
        vectors = prod(self.extents) // (self.width * self.singles)
        return min(vectors // _MANY_THREADS, self.extents[self._rows])

    @property
    def _gathers(self) -> bool:
        """Whether neighbours in the result aren't neighbours in the image."""
        return any(dimension == len(self.extents) - 1 for dimension, _ in self.taps)

    @property
    def _rows(self) -> int:
        """The dimension along which a thread has several elements."""
        return len(self.extents) - (2 if self._gathers else 3)

    @property
    def _columns(self) -> int:
        """The dimension along which it has several where it has a window of these, behind that of rows."""
        return self._rows + 1

    @property
    def _blocks(self) -> tuple[int, ...]:
        """The extents, of rows and columns in blocks and of the last dimension in quads."""
        blocks = [*self.extents[:-1], self.extents[-1] // self.width]
        blocks[self._rows] = ceil_div(blocks[self._rows], self.rows)
        if self.columns_window is not None:
            blocks[self._columns] //= self.columns_window.block
        return tuple(blocks)

    @property
    def _outer(self) -> tuple[int, ...]:
        """The dimensions of blocks that workgroups are numbered by, and their threads in groups."""
        return self._blocks[:-1] if self._gathers or self.width > 1 else self._blocks[:-2]

    @cached_property
    def _grid(self) -> ThreadGrid:
        if self._gathers:
            return ThreadGrid(self._blocks[-1], self.threads, _COLUMN_NEIGHBOURS)
        if self.width > 1:
            return ThreadGrid(self._blocks[-1], self.threads, _NEIGHBOURS)
        # Single elements of whole rows, so that warps read and write neighbours.
        return ThreadGrid(prod(self._blocks[-2:]) // self.singles, self.threads, self.threads)

    def _places(self, work: Work) -> tuple[list[list[Index]], Condition]:
        """Where this thread's first element is, and its neighbours, and whether it has some."""
        number, inner, exists = self._grid.place(work.workgroup, Index(prod(self._outer)))
        outer, extents = unflatten(number, list(self._outer)), self._blocks[len(self._outer) :]
        numbers = [inner * self.singles + i for i in range(self.singles)]
        return [self._place([*outer, *unflatten(each, extents)]) for each in numbers], exists

    def _place(self, blocks: list[Index]) -> list[Index]:
        """Where the first element of a block is."""
        # The last block has the last rows, whoever else has them, too.
        first = blocks[self._rows] * self.rows
        if self.extents[self._rows] % self.rows:
            first = first.minimum(self.extents[self._rows] - self.rows)
        blocks[self._rows] = first
        if self.columns_window is not None:
            blocks[self._columns] = blocks[self._columns] * self.columns_window.block
        blocks[-1] = blocks[-1] * self.width
        return blocks

    def _taps(
        self, dimension: int, elements: Sequence[Index], tables: dict[int, tuple[TapTable, GlobalBuffer]]
    ) -> _Taps:
        """What is read for an element of all lanes, or for one of each of them."""
        line = dict(self.lines).get(dimension)
        looked_up = []
        if dimension in tables:
            table, buffer = tables[dimension]
            looked_up = [table.load(buffer, each) for each in elements]
        elif line is None:
            return _Taps([list(elements)])
        read = [each for each, _ in looked_up] if line is None else list(map(line.places, elements))
        positions = [list(lanes) for lanes in zip(*read, strict=True)]
        weights = [each for _, each in looked_up if each is not None]
        if not weights:
            return _Taps(positions)
        by_tap = list(zip(*weights, strict=True))
        lanes = self.together_stored
        if lanes == 1:
            return _Taps(positions, [tap[0] for tap in by_tap])
        spread = [quad_of(tap) if len(tap) > 1 else broadcast(tap[0], lanes) for tap in by_tap]
        return _Taps(positions, spread)

    def _along(
        self,
        dimension: int,
        count: int,
        place: Sequence[Index],
        tables: dict[int, tuple[TapTable, GlobalBuffer]],
    ) -> list[_Taps]:
        """What is read for so many elements from `place` on, of those of a window their weights alone."""
        window = self._windows.get(dimension)
        if window is None or window.weights is None:
            return [self._taps(dimension, [place[dimension] + i], tables) for i in range(count)]
        element, lanes = ir.F32Type.get(), self.together_stored
        spread = [
            [arith.constant(element, each) if lanes == 1 else splat(each, lanes, element) for each in weights]
            for weights in window.weights
        ]
        return [_Taps([], weights) for weights in spread]

    def _values(
        self,
        image: GlobalBuffer,
        others: dict[int, _Taps],
        rows: Sequence[_Taps],
        columns: Sequence[_Taps] | None,
        place: Sequence[Index],
    ) -> Iterator[list[ir.Value]]:
        """Those of each row of a thread, of each of its `columns`; None of these where it has one.

        All loads are before the first store, which they might depend on otherwise, unless registers hold no
        more than the rows that one is made of.
        """
        last = len(self.extents) - 1

        def of_row(taps: _Taps) -> list[ir.Value]:
            read = {**others, self._rows: taps}
            if self.columns_window is None or columns is None:
                return [self._blended(image, read, last, [])]
            places = self._read(self.columns_window, place[self._columns])
            cells = [self._blended(image, {**read, self._columns: each}, last, []) for each in places]
            return self._sums(self.columns_window, cells, columns)

        if self.window is None:
            yield from [of_row(taps) for taps in rows]
            return
        read: list[list[ir.Value]] = []
        places = self._read(self.window, place[self._rows])
        for offset, taps in zip(self.window.offsets, rows, strict=True):
            end = offset + self.window.taps if self._rows_together == 1 else len(places)
            read += [of_row(each) for each in places[len(read) : end]]
            assert taps.weights is not None
            by_column = zip(*read[offset : offset + self.window.taps], strict=True)
            yield [self._sum(each, taps.weights) for each in by_column]

    def _read(self, window: TapWindow, first: Index) -> list[_Taps]:
        """The places that are read for a block from `first` on, each by itself."""
        block = first // window.block
        return [_Taps([[window.place(block, number)]]) for number in range(window.extent)]

    def _sums(self, window: TapWindow, read: Sequence[ir.Value], along: Sequence[_Taps]) -> list[ir.Value]:
        """Of each element of a block, by what it reads."""
        values = []
        for offset, taps in zip(window.offsets, along, strict=True):
            assert taps.weights is not None
            values.append(self._sum(read[offset : offset + window.taps], taps.weights))
        return values

    def _sum(self, parts: Sequence[ir.Value], weights: Sequence[ir.Value]) -> ir.Value:
        """That of products."""
        total = arith.mulf(parts[0], weights[0])
        for part, weight in zip(parts[1:], weights[1:], strict=True):
            total = multiply_add(part, weight, total, fused=self.together_stored > 1)
        return total

    def _blended(
        self, image: GlobalBuffer, taps: dict[int, _Taps], dimension: int, chosen: list[list[Index]]
    ) -> ir.Value:
        """The sum over the taps of `dimension` and those before it, at `chosen` in those behind it."""
        if dimension < 0:
            return self._loaded(image, chosen)
        of_dimension = taps[dimension]
        if of_dimension.weights is None:
            return self._blended(image, taps, dimension - 1, [of_dimension.positions[0], *chosen])
        parts = [
            self._blended(image, taps, dimension - 1, [position, *chosen])
            for position in of_dimension.positions
        ]
        return self._sum(parts, of_dimension.weights)

    def _loaded(self, image: GlobalBuffer, chosen: Sequence[Sequence[Index]]) -> ir.Value:
        """The element or the quad at a position, along some dimensions one for each lane."""
        if self.reads_quads:
            return image.load(image.offset([each for (each,) in chosen]), self.width)
        lanes = [
            image.load_scalar(image.offset([each[lane if len(each) > 1 else 0] for each in chosen]))
            for lane in range(self.together_stored)
        ]
        return lanes[0] if len(lanes) == 1 else quad_of(lanes)


def _window(axis: Axis, size: int, most: int) -> TapWindow | None:
    """Of blocks of so many elements at most, the one of which each reads fewest for its own; None of none."""
    windows = (TapWindow.of(axis, size, block) for block in range(most, 1, -1))
    found = [each for each in windows if each is not None]
    return min(found, key=lambda each: each.extent / each.block, default=None)


def _position(number: ir.Value) -> Index:
    """A number of f32, which is a whole one, as an index."""
    integer = arith.fptosi(ir.IntegerType.get_signless(32), number)
    return Index(arith.index_cast(ir.IndexType.get(), integer))
