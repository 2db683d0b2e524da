"""Transforms of tiles of images on the CPU: a tile at a time, vectors along the channels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

from iree.winograd.dialect.algebra.recipe import Recipe
from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.emission.buffer import Buffer, scratch
from iree.winograd.pipelines.emission.control_flow import loop, when
from iree.winograd.pipelines.emission.epilogue import VectorEpilogue
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.recipe import (
    Load,
    Position,
    Store,
    emit_rolled,
    emit_unrolled,
    flattened,
)
from iree.winograd.pipelines.emission.tiles import (
    Positions,
    Tile,
    all_inside,
    input_positions,
    output_positions,
)
from iree.winograd.pipelines.emission.vectors import for_each_vector, vector_width_for
from iree.winograd.pipelines.emission.views import view_offsets
from iree.winograd.pipelines.specification.shape import ConvolutionShape

from .channels_first import ChannelsFirstReader, ChannelsFirstWriter
from .channels_last import ChannelsLastReader, ChannelsLastWriter
from .tile_access import LoadTile, StoreTile, TileReader, TileWriter

Nested = Callable[[Load, Store], None]
"""Emits the transform of a tile of vectors, all dimensions of it."""


@dataclass(frozen=True)
class Channels:
    """`count` neighbouring channels of an image."""

    first: Index
    count: int


@dataclass(frozen=True)
class InputTransform:
    """tiles[row, a, column] = (B^T d)[a] for one tile, columns in the order of group, view and channel.

    `image` is N x H... x C, or N x C x H..., `tiles` is tile_block x A x (groups * views * C/groups, padded).
    Tiles inside of the image have code of their own.
    """

    shape: ConvolutionShape
    target: CpuTarget
    image: Buffer
    tiles: Buffer

    def emit(self, tile: Tile, row: Index, part: Channels | None = None) -> None:
        """Emits the transform of one tile to a row of `tiles`: of all channels, or a `part` of each group's.

        Views are taken by a loop: those of a large kernel are many, each as much code as the first.
        """
        shape = self.shape
        part = part or Channels(Index(0), shape.group_inputs)
        width = vector_width_for(part.count, self.target.vector_width)
        nested, reader = self._nested(width), self._reader(width)
        with loop(shape.decomposition.view_count, name="view") as view:

            def transform(load_tile: LoadTile) -> None:
                with loop(shape.groups, name="group") as group:
                    first = group * shape.reduction + view * shape.group_inputs + part.first
                    channels = Channels(group * shape.group_inputs + part.first, part.count)
                    self._transform(nested, load_tile, self.tiles.offset([row, 0, first]), channels, width)

            self._for_view(reader, tile, view, transform)

    def emit_channels(self, tile: Tile, row: Index, view: Index, channels: Channels) -> None:
        """Emits the transform of some channels of a view to a row of `tiles`, which has no others."""
        width = vector_width_for(channels.count, self.target.vector_width)
        nested, reader = self._nested(width), self._reader(width)

        def transform(load_tile: LoadTile) -> None:
            self._transform(nested, load_tile, self.tiles.offset([row, 0, 0]), channels, width)

        self._for_view(reader, tile, view, transform)

    def _for_view(
        self, reader: TileReader, tile: Tile, view: Index, transform: Callable[[LoadTile], None]
    ) -> None:
        offsets = view_offsets(self.shape.decomposition, view)
        _for_tile(reader, tile, input_positions(self.shape, tile, offsets), transform)

    def _transform(
        self, nested: Nested, load_tile: LoadTile, columns: Index, channels: Channels, width: int
    ) -> None:
        """Transforms the vectors of some channels to the columns from an offset in `tiles` on."""

        def transform_vector(c: Index) -> None:
            nested(load_tile(channels.first + c), partial(self._store, columns + c))

        for_each_vector(channels.count, width, transform_vector, "c")

    def _store(self, first: Index, element: Position, value: ir.Value) -> None:
        number = flattened(element, self.shape.decomposition.alpha)
        self.tiles.store(value, first + number * self.tiles.stride(1))

    def _nested(self, width: int) -> Nested:
        recipes = [each.input for each in self.shape.decomposition.transforms]
        return _nested(recipes, width, self.tiles.element, self.target)

    def _reader(self, width: int) -> TileReader:
        if self.shape.input_channels_first:
            return ChannelsFirstReader.of(self.shape, self.image, width)
        return ChannelsLastReader(self.shape, self.image, width)


@dataclass(frozen=True)
class GradientTransform:
    """tiles[row, a, k] = (A y)[a] for the gradients y of the outputs of one tile.

    `gradient` is N x OH... x K, `tiles` is tile_block x A x (K, padded). Outputs beyond the image have none.
    """

    shape: ConvolutionShape
    target: CpuTarget
    gradient: Buffer
    tiles: Buffer

    def emit(self, tile: Tile, row: Index) -> None:
        """Emits the transform of one tile to a row of `tiles`."""
        self.emit_channels(tile, row, Channels(Index(0), self.shape.output_channels))

    def emit_channels(self, tile: Tile, row: Index, channels: Channels) -> None:
        """Emits the transform of some channels of one tile to a row of `tiles`, which has no others."""
        width = vector_width_for(channels.count, self.target.vector_width)
        recipes = [each.filter for each in self.shape.decomposition.gradient_transforms]
        nested = _nested(recipes, width, self.tiles.element, self.target)
        reader = ChannelsLastReader(self.shape, self.gradient, width)

        def transform(load_tile: LoadTile) -> None:
            self._transform(nested, load_tile, row, channels, width)

        _for_tile(reader, tile, output_positions(self.shape, tile), transform)

    def _transform(
        self, nested: Nested, load_tile: LoadTile, row: Index, channels: Channels, width: int
    ) -> None:
        tiles, alpha = self.tiles, self.shape.decomposition.alpha

        def transform_vector(k: Index) -> None:
            first = tiles.offset([row, 0, k])

            def store(element: Position, value: ir.Value) -> None:
                tiles.store(value, first + flattened(element, alpha) * tiles.stride(1))

            nested(load_tile(channels.first + k), store)

        for_each_vector(channels.count, width, transform_vector, "k")


@dataclass(frozen=True)
class OutputTransform:
    """image[n, o..., k] = epilogue((A^T M)[o, k]) for one tile and `channel_block` channels.

    `products` is A x tile_block x channel_block, `image` is N x OH... x K, or N x K x OH....
    """

    shape: ConvolutionShape
    target: CpuTarget
    products: Buffer
    image: Buffer
    epilogue: VectorEpilogue
    channel_block: int
    width: int

    def emit(self, tile: Tile, row: Index, first_channel: Index) -> None:
        """Emits the transform of a row of `products`, the channels from `first_channel` on."""
        positions = output_positions(self.shape, tile)
        recipes = [each.output for each in self.shape.decomposition.transforms]
        nested = _nested(recipes, self.width, self.products.element, self.target)
        writer = self._writer()
        _for_positions(
            positions,
            lambda: self._transform(nested, row, first_channel, writer.inside(tile, positions)),
            lambda: self._transform(nested, row, first_channel, writer.on_the_edge(tile, positions)),
        )

    def _transform(self, nested: Nested, row: Index, first_channel: Index, store_tile: StoreTile) -> None:
        products, alpha = self.products, self.shape.decomposition.alpha

        def transform_vector(k: Index) -> None:
            first = products.offset([0, row, k])

            def load(element: Position) -> ir.Value:
                return products.load(first + flattened(element, alpha) * products.stride(0), self.width)

            with store_tile(first_channel + k) as store:
                nested(load, store)

        for_each_vector(self.channel_block, self.width, transform_vector, "k")

    def _writer(self) -> TileWriter:
        if self.shape.output_channels_first:
            return ChannelsFirstWriter.of(self.shape, self.image, self.epilogue, self.width)
        return ChannelsLastWriter(self.shape, self.image, self.epilogue)


def _for_tile(
    reader: TileReader, tile: Tile, positions: list[Positions], transform: Callable[[LoadTile], None]
) -> None:
    """Emits `transform` with what loads a tile that lies at `positions`."""
    _for_positions(
        positions,
        lambda: transform(reader.inside(tile, positions)),
        lambda: transform(reader.on_the_edge(tile, positions)),
    )


def _for_positions(
    positions: list[Positions], inside: Callable[[], None], on_the_edge: Callable[[], None]
) -> None:
    """Emits `inside` for tiles all of whose positions exist, `on_the_edge` for the others."""
    if any(dimension.never_inside for dimension in positions):
        on_the_edge()
    else:
        when(all_inside(positions), inside, on_the_edge)


def _nested(recipes: Sequence[Recipe], width: int, element: ir.Type, target: CpuTarget) -> Nested:
    """Applies the recipes to a tile: straight-line code if it fits in registers, else loops."""
    extents = [recipe.inputs for recipe in recipes]
    if prod(extents) <= target.vector_registers:
        return lambda load, store: emit_unrolled(recipes, load, store, target.fused_multiply_add)
    temporaries = []
    for dimension in range(len(recipes) - 1):
        extents[dimension] = len(recipes[dimension].outputs)
        temporaries.append(scratch((*extents, width), element, "partly_transformed_tile"))
    return lambda load, store: emit_rolled(recipes, load, store, target.fused_multiply_add, temporaries)
