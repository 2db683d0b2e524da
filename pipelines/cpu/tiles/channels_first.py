"""Tiles of channels-first images: transposed in registers, they wait in memory of the workgroup."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.cpu.processor.transposition import Lines, Span, copy_transposed
from iree.winograd.pipelines.emission.buffer import Buffer, clear_elements, scratch
from iree.winograd.pipelines.emission.control_flow import loop, named, when
from iree.winograd.pipelines.emission.epilogue import VectorEpilogue
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.recipe import Load, Position, Store
from iree.winograd.pipelines.emission.tiles import Positions, Tile, clamped_element
from iree.winograd.pipelines.specification.shape import ConvolutionShape

from .tile_access import LoadTile, StoreTile


@dataclass(frozen=True)
class ChannelsFirstReader:
    """Reads tiles of an image N x C x H..., whose elements lie side by side in the last dimension.

    `waiting` is a tile x channels at once: the tile of a vector of channels, transposed before any is read.
    """

    image: Buffer
    waiting: Buffer

    @staticmethod
    def of(shape: ConvolutionShape, image: Buffer, width: int) -> ChannelsFirstReader:
        """For `width` channels at once; emits the memory that they wait in."""
        waiting = scratch((*shape.decomposition.alpha, width), image.element, "transposed_tile")
        return ChannelsFirstReader(image, waiting)

    def inside(self, tile: Tile, positions: list[Positions]) -> LoadTile:
        """Transposes all elements of a tile, then loads."""
        return lambda c: self._load(tile, positions, c, on_the_edge=False)

    def on_the_edge(self, tile: Tile, positions: list[Positions]) -> LoadTile:
        """Transposes the elements that exist, beside zeros, then loads."""
        return lambda c: self._load(tile, positions, c, on_the_edge=True)

    def _load(self, tile: Tile, positions: list[Positions], c: Index, *, on_the_edge: bool) -> Load:
        image, waiting = self.image, self.waiting
        *_, length, width = waiting.extents
        first = positions[-1].first
        span = Span(Index(0) - first, Index(image.extents[-1]) - first) if on_the_edge else None
        with _lines(waiting.extents[:-2]) as line:
            position, exists = clamped_element(positions[:-1], line)
            source = Lines(image, image.offset([tile.image, c, *position, first]), image.stride(1))
            target = Lines(waiting, waiting.offset([*line, 0, 0]), width)
            when(
                exists,
                lambda: copy_transposed(source, target, (width, length), width, read=span),
                lambda: clear_elements(waiting, target.first, Index(length * width), width),
            )

        def load(element: Position) -> ir.Value:
            with named("element"):
                return waiting.load(waiting.offset([*element, 0]), width)

        return load


@dataclass(frozen=True)
class ChannelsFirstWriter:
    """Writes tiles of an image N x K x OH..., whose outputs lie side by side in the last dimension.

    `waiting` is a tile x channels at once: the finished outputs, which are transposed as they are written.
    """

    image: Buffer
    epilogue: VectorEpilogue
    waiting: Buffer

    @staticmethod
    def of(
        shape: ConvolutionShape, image: Buffer, epilogue: VectorEpilogue, width: int
    ) -> ChannelsFirstWriter:
        """For `width` channels at once; emits the memory that they wait in."""
        waiting = scratch((*shape.decomposition.output_tile, width), image.element, "finished_tile")
        return ChannelsFirstWriter(image, epilogue, waiting)

    def inside(self, tile: Tile, positions: list[Positions]) -> StoreTile:
        """Writes all outputs of a tile."""
        return lambda k: self._storing(tile, positions, k, on_the_edge=False)

    def on_the_edge(self, tile: Tile, positions: list[Positions]) -> StoreTile:
        """Writes the outputs that exist."""
        return lambda k: self._storing(tile, positions, k, on_the_edge=True)

    @contextmanager
    def _storing(
        self, tile: Tile, positions: list[Positions], k: Index, *, on_the_edge: bool
    ) -> Iterator[Store]:
        image, waiting = self.image, self.waiting
        *_, length, width = waiting.extents

        def store(element: Position, value: ir.Value) -> None:
            # A position that doesn't exist is moved to one that does, where the epilogue may read.
            position, _ = clamped_element(positions, element)
            with named("output"):
                finished = self.epilogue.emit(value, tile.image, position, k)
            waiting.store(finished, waiting.offset([*element, 0]))

        yield store
        first = positions[-1].first
        span = Span(Index(0), Index(image.extents[-1]) - first) if on_the_edge else None
        with _lines(waiting.extents[:-2]) as line:
            position, exists = clamped_element(positions[:-1], line)
            source = Lines(waiting, waiting.offset([*line, 0, 0]), width)
            target = Lines(image, image.offset([tile.image, k, *position, first]), image.stride(1))
            when(exists, lambda: copy_transposed(source, target, (length, width), width, written=span))


@contextmanager
def _lines(extents: tuple[int, ...]) -> Iterator[Position]:
    """A loop over the lines of a tile along its last dimension."""
    with ExitStack() as loops:
        yield tuple(loops.enter_context(loop(extent, name="line")) for extent in extents)
