"""The CPU kernel that selects or blends rows and columns of an image, at positions in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir, vector
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.processor.transposition import columns_of_joined, joined, transposed_block
from iree.winograd.pipelines.emission.buffer import Buffer, scratch
from iree.winograd.pipelines.emission.control_flow import loop, named, when
from iree.winograd.pipelines.emission.index import Index, ceildiv, unflatten
from iree.winograd.pipelines.emission.numbers.f32 import F32
from iree.winograd.pipelines.emission.selection import Place, Selection, blended
from iree.winograd.pipelines.emission.sized_shape import product
from iree.winograd.pipelines.emission.vectors import for_each_vector, vector_width_for
from iree.winograd.pipelines.emission.work import Sizes, Work

from .column_lookup import LANES, ColumnLookup, looks_up_columns

_SIGNAL_COLUMNS = 512
"""Of a signal, which has no rows, that a workgroup takes."""
_ROW_BYTES = 32 << 10
"""Of a row that is blended of others: what stays in L1 beside what is written."""


@dataclass(frozen=True)
class SelectionKernel:
    """Sums of pixels whose positions and weights are in memory; a workgroup takes a row, of signals a part.

    Rows whose pixels fill no vector are added once for all columns, where there is room for the sum. Pixels
    of an output with channels first become lines of channels in registers, or the sum of rows does in memory.
    """

    selection: Selection
    target: CpuTarget
    first_channel: int = 0
    """Of the output, that of the first one."""
    makes_first: bool = False
    """Whether channels are first in the output, which has no others."""

    @property
    def name(self) -> str:
        return f"{self.selection.name}_channels_first" if self.makes_first else self.selection.name

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index]:
        """Rows of all images, or parts of all signals."""
        *outer, columns = sizes.spatial("output")
        rows = product(tuple(outer)) if outer else ceildiv(columns, _SIGNAL_COLUMNS)
        return sizes.batch * rows, Index(1)

    def emit(self, work: Work, image: Buffer, *tables_and_output: Buffer) -> None:
        """Emits the work of one workgroup at the insertion point: N x H... x C to N x OH... x C or more.

        Or to N x C x OH... Tables are the positions of each tap, its weights, if it has some, next to them.
        """
        *tables, output = tables_and_output
        taps, channels = self.selection.taps(tables), self.selection.channels
        width = vector_width_for(channels, self.target.vector_width)
        *outer, columns = work.sizes.spatial("output")
        begin_column = Index(0)
        if outer:
            number, *row = unflatten(work.workgroup[0], [work.sizes.batch, *outer])
        else:
            row, parts = [], ceildiv(columns, _SIGNAL_COLUMNS)
            number, begin_column = work.workgroup[0] // parts, work.workgroup[0] % parts * _SIGNAL_COLUMNS
            columns = (columns - begin_column).minimum(_SIGNAL_COLUMNS)
        with named("row"):
            rows = [each.places(index, width) for each, index in zip(taps, row, strict=False)]

        def loading(source: Buffer, begin: list[Index], channel: Index) -> Callable[[list[Index]], ir.Value]:
            return lambda pixel: source.load(source.offset([*begin, *pixel, 0]) + channel, width)

        def emit_lines(
            source: Buffer, begin: list[Index], rows: list[list[Place]], column: Index, count: int
        ) -> None:
            with named("pixel"):
                columns_of = [taps[-1].places(column + i, width) for i in range(count)]
            are_joined = width < count and all(each.weight is None for places in rows for each in places)

            def lines(channel: Index) -> list[ir.Value]:
                load = loading(source, begin, channel)
                if not are_joined:
                    return transposed_block([self._blended(load, [*rows, each]) for each in columns_of])
                weights = taps[-1].weights(column, count)
                return columns_of_joined(
                    [
                        self._blended_together(load, rows, columns_of[i::width], _every(weights, i, width))
                        for i in range(width)
                    ]
                )

            def store(channel: Index) -> None:
                for c, line in enumerate(lines(channel)):
                    output.store(line, output.offset([number, channel + c, *row, column]))

            for_each_vector(channels, width, store, "channel")

        def emit_columns(source: Buffer, begin: list[Index], rows: list[list[Place]]) -> None:
            if self.makes_first:
                self._for_each_block(
                    columns,
                    lambda column, count: emit_lines(source, begin, rows, begin_column + column, count),
                )
                return
            with loop(columns, name="column") as step:
                column = begin_column + step
                with named("pixel"):
                    places = [*rows, taps[-1].places(column, width)]
                    target = output.offset([number, *row, column, self.first_channel])

                def store(channel: Index) -> None:
                    output.store(self._blended(loading(source, begin, channel), places), target + channel)

                for_each_vector(channels, width, store, "channel")

        if not self._blends_rows_first:
            emit_columns(image, [number], rows)
            return
        pixels = _ROW_BYTES // (F32.bytes * channels)
        blended_row = scratch((pixels, channels), image.computed, "blended_row")
        lookup = ColumnLookup(taps[-1]) if self._looks_up_columns else None
        lines = None if lookup is None else scratch((channels, pixels + LANES), image.computed, "lines")
        extent = work.sizes.spatial("input")[-1]

        def emit_row(lanes: int) -> None:
            """All columns of the sum of rows, a vector of which may begin within a pixel."""
            with named("row"):
                wide = [each.places(index, lanes) for each, index in zip(taps, row, strict=False)]
            elements = extent * channels
            with loop(ceildiv(elements, lanes), name="elements") as step:
                element = (step * lanes).minimum(elements - lanes)
                blended_row.store(self._blended(loading_elements(element, lanes), wide), element)

        def loading_elements(element: Index, lanes: int) -> Callable[[list[Index]], ir.Value]:
            return lambda outer: image.load(image.offset([number, *outer, 0, 0]) + element, lanes)

        def emit_looked_up(lookup: ColumnLookup, lines: Buffer) -> None:
            self._for_each_block(extent, lambda column, count: emit_line_blocks(lines, column, count))
            with loop(ceildiv(columns, LANES), name="columns") as step:
                column = (step * LANES).minimum(columns - LANES)
                with named("pixel"):
                    load, places = lookup.loads(column)
                target = output.offset([number, 0, *row, column])
                with loop(channels, name="channel") as channel:
                    line = lines.offset([channel, 0])
                    value = self._blended(lambda tap: load(lines, line, tap[0]), [places])
                    output.store(value, target + channel * output.stride(1))

        def emit_line_blocks(lines: Buffer, column: Index, count: int) -> None:
            def store(channel: Index) -> None:
                pixel = blended_row.offset([column, channel])
                block = [blended_row.load(pixel + i * channels, width) for i in range(count)]
                for c, line in enumerate(transposed_block(block)):
                    lines.store(line, lines.offset([channel + c, column]))

            for_each_vector(channels, width, store, "channel")

        def emit_rows_first() -> None:
            lanes = self.target.vector_width
            when((extent * channels).at_least(lanes), lambda: emit_row(lanes), lambda: emit_row(1))
            if lookup is None or lines is None:
                emit_columns(blended_row, [], [])
                return
            when(
                lookup.fits(columns),
                lambda: emit_looked_up(lookup, lines),
                lambda: emit_columns(blended_row, [], []),
            )

        when(extent.less_than(pixels + 1), emit_rows_first, lambda: emit_columns(image, [number], rows))

    def _blended(self, load: Callable[[list[Index]], ir.Value], places: list[list[Place]]) -> ir.Value:
        """The sum over all places, rounded as the program has it."""
        if self.selection.rounded is None:
            return blended(load, places)
        return blended(load, places, rounded=self.target.numbers[self.selection.rounded].rounded)

    def _blended_together(
        self,
        load: Callable[[list[Index]], ir.Value],
        rows: list[list[Place]],
        columns: list[list[Place]],
        weights: list[ir.Value | None],
    ) -> ir.Value:
        """The sums of several columns of a row in one vector: of few channels one fills a part of it.

        `weights` are those of each tap, for all lanes.
        """

        def load_joined(pixel: list[Index]) -> ir.Value:
            *outer, tap = pixel
            assert tap.known is not None
            return joined([load([*outer, each[tap.known].index]) for each in columns])

        by_tap = [Place(Index(tap), weight) for tap, weight in enumerate(weights)]
        return self._blended(load_joined, [*rows, by_tap])

    @property
    def _looks_up_columns(self) -> bool:
        """Whether vectors of columns are looked up in lines of channels."""
        return self.makes_first and looks_up_columns(self.target)

    def _for_each_block(self, columns: Index, body: Callable[[Index, int], None]) -> None:
        """Emits it for vectors of columns, the last of which overlaps its neighbour, or for single ones."""
        width = self.target.vector_width

        def by_vectors() -> None:
            with loop(ceildiv(columns, width), name="columns") as number:
                body((number * width).minimum(columns - width), width)

        def one_by_one() -> None:
            with loop(columns, name="column") as column:
                body(column, 1)

        when(columns.at_least(width), by_vectors, one_by_one)

    @property
    def _blends_rows_first(self) -> bool:
        """Whether columns are selected of what is blended of several rows, if these have room.

        Pixels that fill vectors take as long as memory either way, unless products and sums are rounded, or
        columns are looked up.
        """
        *outer, last = self.selection.is_weighted
        fills_none = self.selection.channels < self.target.vector_width
        is_slower = self.selection.rounded is not None or fills_none or self._looks_up_columns
        return bool(last) and any(map(any, outer)) and is_slower


def _every(weights: list[ir.Value | None], first: int, step: int) -> list[ir.Value | None]:
    """Of each tap's weights of neighbouring columns every `step`-th from `first` on, each in `step` lanes."""
    return [None if each is None else _repeated(each, first, step) for each in weights]


def _repeated(weights: ir.Value, first: int, step: int) -> ir.Value:
    lanes = ir.VectorType(weights.type).shape[0]
    return vector.shuffle(weights, weights, [first + lane // step * step for lane in range(lanes)])
