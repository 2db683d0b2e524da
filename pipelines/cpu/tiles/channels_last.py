"""Tiles of channels-last images: a vector of channels is one access."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.cpu.processor.product import CACHE_LINE_FLOATS
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.control_flow import loop, loops, named
from iree.winograd.pipelines.emission.epilogue import VectorEpilogue
from iree.winograd.pipelines.emission.index import Condition, Index
from iree.winograd.pipelines.emission.recipe import Load, OnTheEdge, Position, Store
from iree.winograd.pipelines.emission.tiles import (
    Positions,
    Tile,
    clamped_element,
    clamped_on_line,
    line_exists,
)
from iree.winograd.pipelines.problems.shape import ConvolutionShape

LoadTile = Callable[[Index], Load]
"""From a channel to what loads a tile's elements, of each a vector of channels from that one on."""
StoreTile = Callable[[Index], Store]
"""From a channel to what stores a tile's outputs, of each a vector of channels from that one on."""
Place = Callable[[list[Positions], Position], tuple[Position, Condition]]
"""Where an element of a tile lies, moved into the image if need be, and whether it exists there."""


@dataclass(frozen=True)
class ChannelsLastReader:
    """Reads tiles of an image N x H... x C, `width` channels at once."""

    shape: ConvolutionShape
    image: Buffer
    width: int

    def inside(self, tile: Tile, positions: list[Positions]) -> LoadTile:
        """Loads at known distances from the first element, what only the next tile has is fetched beside."""
        image, decomposition = self.image, self.shape.decomposition
        with named("tile_origin"):
            origin = image.offset([tile.image, *(dimension.first for dimension in positions), 0])
        to_next_tile = decomposition.output_tile[-1] * decomposition.spacing[-1] * image.stride(-2)
        shared = range(decomposition.alpha[-1] - decomposition.output_tile[-1])

        def load(c: Index, element: Position) -> ir.Value:
            position = origin + c + _distance(image, positions, element)
            if element[-1].known not in shared:
                image.prefetch(position + to_next_tile)
            with named("element"):
                return image.load(position, self.width)

        return lambda c: lambda element: load(c, element)

    def fetch(self, tile: Tile, positions: list[Positions]) -> None:
        """Fetches to L2 the elements of a tile that those before it in its row, and above it, don't have."""
        decomposition = self.shape.decomposition
        with loops(decomposition.output_tile) as outputs:
            places = [
                dimension.first + (i + (alpha - m)) * dimension.spacing
                for dimension, i, alpha, m in zip(
                    positions, outputs, decomposition.alpha, decomposition.output_tile, strict=True
                )
            ]
            origin = self.image.offset([tile.image, *places, 0])
            with loop(self.shape.input_channels, CACHE_LINE_FLOATS, "c") as c:
                self.image.prefetch(origin + c, to_l2=True)

    def on_the_edge(self, tile: Tile, positions: list[Positions]) -> LoadTile:
        """Loads each element on condition that it exists; lines are of the first dimension."""

        def load(place: Place, c: Index, element: Position) -> ir.Value:
            position, exists = place(positions, element)
            offset = self.image.offset([tile.image, *position, 0]) + c
            with named("element"):
                return self.image.load(offset, self.width, exists)

        return lambda c: OnTheEdge(
            partial(load, clamped_element, c),
            lambda rest: line_exists(positions, rest, 0),
            partial(load, partial(clamped_on_line, dimension=0), c),
        )


@dataclass(frozen=True)
class ChannelsLastWriter:
    """Writes tiles of an image N x OH... x K."""

    shape: ConvolutionShape
    image: Buffer
    epilogue: VectorEpilogue

    def inside(self, tile: Tile, positions: list[Positions]) -> StoreTile:
        """Stores at known distances from the first element, each with that of the next tile fetched."""
        image, epilogue = self.image, self.epilogue
        with named("tile_origin"):
            origin = image.offset([tile.image, *(dimension.first for dimension in positions), 0])
        tile_width = self.shape.decomposition.output_tile[-1] * positions[-1].spacing

        def storing(k: Index) -> Store:
            def store(element: Position, value: ir.Value) -> None:
                position = tuple(
                    dimension.first + i * dimension.spacing
                    for dimension, i in zip(positions, element, strict=True)
                )
                offset = origin + k + _distance(image, positions, element)
                image.prefetch(offset + tile_width * image.stride(-2), to_write=True)
                epilogue.prefetch(tile.image, (*position[:-1], position[-1] + tile_width), k)
                with named("output"):
                    finished = epilogue.emit(value, tile.image, position, k)
                image.store(finished, offset)

            return store

        return storing

    def fetch(self, tile: Tile, positions: list[Positions], first_channel: Index, count: int) -> None:
        """Fetches so many channels of a tile's outputs, to be written, and what the epilogue reads there."""
        with loops(self.shape.decomposition.output_tile) as outputs:
            position = tuple(
                dimension.first + i * dimension.spacing
                for dimension, i in zip(positions, outputs, strict=True)
            )
            origin = self.image.offset([tile.image, *position, first_channel])
            for lane in range(0, count, CACHE_LINE_FLOATS):
                self.image.prefetch(origin + lane, to_write=True)
                self.epilogue.prefetch(tile.image, position, first_channel + lane)

    def on_the_edge(self, tile: Tile, positions: list[Positions]) -> StoreTile:
        """Stores each output on condition that it exists; lines are of the last dimension."""
        last = len(positions) - 1

        def store(place: Place, k: Index, element: Position, value: ir.Value) -> None:
            # A position that doesn't exist is moved to one that does, where the epilogue may read.
            position, exists = place(positions, element)
            with named("output"):
                finished = self.epilogue.emit(value, tile.image, position, k)
            self.image.store(finished, self.image.offset([tile.image, *position, 0]) + k, exists)

        return lambda k: OnTheEdge(
            partial(store, clamped_element, k),
            lambda rest: line_exists(positions, rest, last),
            partial(store, partial(clamped_on_line, dimension=last), k),
        )


def _distance(image: Buffer, positions: list[Positions], element: Position) -> Index:
    """Elements from a tile's first element to another one, both inside of the image."""
    distance = Index(0)
    for d, (i, dimension) in enumerate(zip(element, positions, strict=True)):
        distance = distance + i * (dimension.spacing * image.stride(1 + d))
    return distance
