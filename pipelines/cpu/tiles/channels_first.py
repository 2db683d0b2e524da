"""Strips of channels-first images: transposed in registers, they wait in memory of the workgroup."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.cpu.processor.strips import STRIP_BLOCK, input_strip, output_strip
from iree.winograd.pipelines.cpu.processor.transposition import Lines, Span, copy_transposed
from iree.winograd.pipelines.emission.buffer import Buffer, clear_elements, scratch
from iree.winograd.pipelines.emission.control_flow import loop, named, when
from iree.winograd.pipelines.emission.epilogue import VectorEpilogue
from iree.winograd.pipelines.emission.index import Index, IndexLike, ceildiv
from iree.winograd.pipelines.emission.recipe import Load, Position, Store, flattened
from iree.winograd.pipelines.emission.sized_shape import SizedShape
from iree.winograd.pipelines.emission.tiles import (
    Positions,
    clamped_element,
    input_positions,
    output_positions,
)

from .tile_block import Strip


@dataclass(frozen=True)
class ChannelsFirstReader:
    """Reads strips of tiles of an image N x C x H..., whose elements lie side by side in the last dimension.

    `waiting` is lines x columns x channels at once: what a strip reads of a vector of channels, transposed
    before any is read, between zeros where the image is padded.
    """

    shape: SizedShape
    image: Buffer
    waiting: Buffer

    @staticmethod
    def of(shape: SizedShape, image: Buffer, width: int) -> ChannelsFirstReader:
        """For `width` channels at once; emits the memory that they wait in."""
        strip = input_strip(shape.shape)
        waiting = scratch((strip.lines, strip.columns, width), image.computed, "transposed_strip")
        return ChannelsFirstReader(shape, image, waiting)

    def transposed(self, strip: Strip, view: tuple[IndexLike, ...], c: Index) -> Callable[[Index], Load]:
        """Transposes a vector of channels of a strip; gives what loads the tile of a row."""
        *outer, columns = input_positions(self.shape, strip.first, view)
        *lines, length = self.shape.decomposition.alpha
        outputs, size = self.shape.decomposition.output_tile[-1], self.shape.input_size[-1]
        block = STRIP_BLOCK if size.known is None else min(STRIP_BLOCK, size.known)
        with named("columns"):
            begin = columns.first + strip.number(strip.begin) * outputs
            end = columns.first + strip.number(strip.end - 1) * outputs + length
            inside = Span(begin.maximum(0), end.minimum(size).maximum(0))
            before, after = _beside(columns, begin, end)
            # Blocks begin at multiples of their length, but for the last one: few are in two cache lines.
            first_block = columns.first.maximum(0) // block * block
            origin = first_block - (self.shape.padding_low[-1] + block - 1)

        def place(line: Position, column: Index) -> Index:
            return self.waiting.offset([flattened(line, lines), column - origin, 0])

        with _lines(lines) as line:
            position, exists = clamped_element(outer, line)

            def copy_block(column: Index, read: Span | None = None) -> None:
                first = self.image.offset([strip.first.image, c, *position, column])
                self._transpose_block(first, place(line, column), block, read)

            def copy() -> None:
                self._clear(place(line, begin), before)

                def copy_blocks() -> None:
                    skipped = inside.begin // block
                    with loop(ceildiv(inside.end, block) - skipped, name="block") as i:
                        copy_block(((skipped + i) * block).minimum(size - block))

                if size.known is None:
                    whole = Span(Index(0), size)
                    when(size.at_least(block), copy_blocks, lambda: copy_block(Index(0), whole))
                else:
                    copy_blocks()
                self._clear(place(line, begin.maximum(size)), after)

            when(exists, copy, lambda: self._clear(place(line, begin), end - begin))

        def load_tile(row: Index) -> Load:
            zeros = tuple(Index(0) for _ in lines)
            with named("tile_origin"):
                tile = place(zeros, columns.first + strip.number(row) * outputs)

            def load(element: Position) -> ir.Value:
                distance = self.waiting.offset([flattened(element[:-1], lines), element[-1], 0])
                with named("element"):
                    return self.waiting.load(tile + distance, self._width)

            return load

        return load_tile

    def _transpose_block(self, first: Index, place: Index, block: int, read: Span | None) -> None:
        source = Lines(self.image, first, self.image.stride(1))
        target = Lines(self.waiting, place, self._width)
        copy_transposed(source, target, (self._width, block), self._width, read=read)

    def _clear(self, first: Index, columns: Index) -> None:
        clear_elements(self.waiting, first, columns * self._width, self._width)

    @property
    def _width(self) -> int:
        return self.waiting.known_extents[-1]


@dataclass(frozen=True)
class ChannelsFirstWriter:
    """Writes strips of tiles of an image N x K x OH..., whose outputs lie side by side in the last dimension.

    `waiting` is lines x columns x channels at once: the finished outputs of a strip, which are transposed as
    they are written.
    """

    shape: SizedShape
    image: Buffer
    epilogue: VectorEpilogue
    waiting: Buffer

    @staticmethod
    def of(shape: SizedShape, image: Buffer, epilogue: VectorEpilogue, width: int) -> ChannelsFirstWriter:
        """For `width` channels at once; emits the memory that they wait in."""
        strip = output_strip(shape.shape)
        waiting = scratch((strip.lines, strip.columns, width), image.computed, "finished_strip")
        return ChannelsFirstWriter(shape, image, epilogue, waiting)

    @contextmanager
    def storing(self, strip: Strip, k: Index) -> Iterator[Callable[[Index], Store]]:
        """Gives what stores the tile of a row; writes the strip when the block of the context ends."""
        *lines, outputs = self.shape.decomposition.output_tile
        width = self.waiting.known_extents[-1]
        positions = output_positions(self.shape, strip.first)
        *outer, columns = positions

        def store_tile(row: Index) -> Store:
            first = strip.number(row) * outputs

            def store(element: Position, value: ir.Value) -> None:
                # A position that doesn't exist is moved to one that does, where the epilogue may read.
                position, _ = clamped_element(outer, element[:-1])
                column = (columns.first + first + element[-1]).minimum(Index.of(columns.size) - 1)
                with named("output"):
                    finished = self.epilogue.emit(value, strip.first.image, (*position, column), k)
                place = self.waiting.offset([flattened(element[:-1], lines), first + element[-1], 0])
                self.waiting.store(finished, place)

            return store

        yield store_tile
        begin = strip.number(strip.begin) * outputs
        end = ((strip.number(strip.end - 1) + 1) * outputs).minimum(Index.of(columns.size) - columns.first)
        count = end - begin
        with _lines(lines) as line:
            position, exists = clamped_element(outer, line)

            def copy(column: Index, written: Span | None = None) -> None:
                source = self.waiting.offset([flattened(line, lines), column, 0])
                target = self.image.offset([strip.first.image, k, *position, columns.first + column])
                copy_transposed(
                    Lines(self.waiting, source, width),
                    Lines(self.image, target, self.image.stride(1)),
                    (STRIP_BLOCK, width),
                    width,
                    written=written,
                )

            def copy_blocks() -> None:
                with loop(count, STRIP_BLOCK, name="block") as start:
                    copy(begin + start.minimum(count - STRIP_BLOCK))

            def copy_few() -> None:
                copy(begin, Span(Index(0), count))

            def copy_line() -> None:
                size = Index.of(columns.size).known
                if size is not None and size < STRIP_BLOCK:
                    copy_few()
                else:
                    when(count.at_least(STRIP_BLOCK), copy_blocks, copy_few)

            when(exists, copy_line)


def _beside(columns: Positions, begin: Index, end: Index) -> tuple[Index, Index]:
    """How many columns from `begin` to `end` lie before the image, and how many after it."""
    before, after = Index(0), Index(0)
    if columns.lowest_first < 0:
        before = (end.minimum(0) - begin).maximum(0)
    size = Index.of(columns.size).known
    if size is None or columns.highest_first is None or columns.highest_first + columns.count > size:
        after = (end - begin.maximum(columns.size)).maximum(0)
    return before, after


@contextmanager
def _lines(extents: list[int]) -> Iterator[Position]:
    """A loop over the lines of a strip along its last dimension."""
    with ExitStack() as loops:
        yield tuple(loops.enter_context(loop(extent, name="line")) for extent in extents)
