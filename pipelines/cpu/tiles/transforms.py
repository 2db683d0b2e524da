"""Transforms of tiles of images on the CPU: a tile at a time, vectors along the channels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

from iree.winograd.dialect.algebra.recipe import Recipe
from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.cpu.processor.strips import input_strip, output_strip
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.emission.buffer import Buffer, scratch
from iree.winograd.pipelines.emission.control_flow import loop, when
from iree.winograd.pipelines.emission.epilogue import VectorEpilogue
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.recipe import (
    Load,
    Position,
    Store,
    emit_in_parts,
    emit_rolled,
    extents_between,
    flattened,
)
from iree.winograd.pipelines.emission.sized_shape import SizedShape
from iree.winograd.pipelines.emission.tiles import (
    Positions,
    Tile,
    all_inside,
    input_positions,
    output_positions,
)
from iree.winograd.pipelines.emission.vectors import for_each_vector, vector_width_for
from iree.winograd.pipelines.emission.views import view_offsets
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .channels_first import ChannelsFirstReader, ChannelsFirstWriter
from .channels_last import ChannelsLastReader, ChannelsLastWriter, LoadTile, StoreTile
from .register_parts import register_parts
from .tile_block import TileBlock

MANY_TILES = 128
"""Of all images: with fewer, parts in registers gain 1% of a layer's time or less, for 40 ms of compiling."""

Nested = Callable[[Load, Store], None]
"""Emits the transform of a tile of vectors, all dimensions of it."""


@dataclass(frozen=True)
class NestedTransforms:
    """Those of tiles inside of the image, and on its edge.

    Elements on the edge are accessed on a condition each, several instructions that IREE has to compile.
    """

    inside: Nested
    on_the_edge: Nested


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

    sized: SizedShape
    target: CpuTarget
    image: Buffer
    tiles: Buffer

    @property
    def shape(self) -> ConvolutionShape:
        return self.sized.shape

    def emit_block(self, block: TileBlock, first_row: Index) -> None:
        """Emits the transforms of a block of tiles to the rows of `tiles` from `first_row` on."""
        if self.shape.input_channels_first:
            self._emit_strips(block, first_row)
            return
        with block.rows() as (row, tile):
            self.emit(tile, first_row + row)

    def emit(self, tile: Tile, row: Index) -> None:
        """Emits the transform of one tile of a channels-last image to a row of `tiles`.

        Views are taken by a loop: those of a large kernel are many, each as much code as the first.
        """
        shape = self.shape
        width = self._width(shape.group_inputs)
        nested, reader = self._nested(width), ChannelsLastReader(shape, self.image, width)
        with loop(shape.decomposition.view_count, name="view") as view:

            def transform(nested: Nested, load_tile: LoadTile) -> None:
                with loop(shape.groups, name="group") as group:
                    columns = self.tiles.offset([row, 0, self._column(group, view)])
                    channels = Channels(group * shape.group_inputs, shape.group_inputs)
                    self._transform(nested, load_tile, columns, channels, width)

            self._for_view(reader, tile, view, nested, transform)

    def emit_fetch(self, tile: Tile) -> None:
        """Emits the fetching of a tile of a channels-last image, which `emit` reads later, to L2."""
        (view,) = self.shape.decomposition.views
        reader = ChannelsLastReader(self.shape, self.image, self._width(self.shape.group_inputs))
        reader.fetch(tile, input_positions(self.sized, tile, view))

    def emit_channels(self, tile: Tile, row: Index, view: Index, channels: Channels) -> None:
        """Emits the transform of some channels of a view to a row of `tiles`, which has no others."""
        width = self._width(channels.count)
        nested, reader = self._nested(width), ChannelsLastReader(self.shape, self.image, width)

        def transform(nested: Nested, load_tile: LoadTile) -> None:
            self._transform(nested, load_tile, self.tiles.offset([row, 0, 0]), channels, width)

        self._for_view(reader, tile, view, nested, transform)

    def _emit_strips(self, block: TileBlock, first_row: Index) -> None:
        """Of one vector of channels after the other: a strip of one is in L1, or in L2 beside the tiles."""
        shape = self.shape
        width = self._width(shape.group_inputs)
        nested, reader = self._nested(width), ChannelsFirstReader.of(self.sized, self.image, width)

        def transform_vector(c: Index) -> None:
            with (
                block.strips(input_strip(shape).tiles) as strip,
                loop(shape.decomposition.view_count, name="view") as view,
                loop(shape.groups, name="group") as group,
            ):
                offsets = view_offsets(shape.decomposition, view)
                load_tile = reader.transposed(strip, offsets, group * shape.group_inputs + c)
                with loop(strip.end - strip.begin, name="row") as i:
                    row = strip.begin + i
                    columns = self.tiles.offset([first_row + row, 0, self._column(group, view) + c])
                    nested.inside(load_tile(row), partial(self._store, columns))

        for_each_vector(shape.group_inputs, width, transform_vector, "c")

    def _column(self, group: Index, view: Index) -> Index:
        """The first column of a group and view."""
        return group * self.shape.reduction + view * self.shape.group_inputs

    def _for_view(
        self,
        reader: ChannelsLastReader,
        tile: Tile,
        view: Index,
        nested: NestedTransforms,
        transform: Callable[[Nested, LoadTile], None],
    ) -> None:
        offsets = view_offsets(self.shape.decomposition, view)
        _for_tile(reader, tile, input_positions(self.sized, tile, offsets), nested, transform)

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

    def _nested(self, width: int) -> NestedTransforms:
        recipes = [each.input for each in self.shape.decomposition.transforms]
        return _nested(self.shape, recipes, width, self.tiles.element, self.target, instructions_per_load=2)

    def _width(self, channels: int) -> int:
        return vector_width_for(channels, self.target.vector_width)


@dataclass(frozen=True)
class GradientTransform:
    """tiles[row, a, k] = (A y)[a] for the gradients y of the outputs of one tile.

    `gradient` is N x OH... x K, `tiles` is tile_block x A x (K, padded). Outputs beyond the image have none.
    """

    sized: SizedShape
    target: CpuTarget
    gradient: Buffer
    tiles: Buffer

    @property
    def shape(self) -> ConvolutionShape:
        return self.sized.shape

    def emit(self, tile: Tile, row: Index) -> None:
        """Emits the transform of one tile to a row of `tiles`."""
        self.emit_channels(tile, row, Channels(Index(0), self.shape.output_channels))

    def emit_channels(self, tile: Tile, row: Index, channels: Channels) -> None:
        """Emits the transform of some channels of one tile to a row of `tiles`, which has no others."""
        width = vector_width_for(channels.count, self.target.vector_width)
        recipes = [each.filter for each in self.shape.decomposition.gradient_transforms]
        nested = _nested(self.shape, recipes, width, self.tiles.element, self.target)
        reader = ChannelsLastReader(self.shape, self.gradient, width)

        def transform(nested: Nested, load_tile: LoadTile) -> None:
            self._transform(nested, load_tile, row, channels, width)

        _for_tile(reader, tile, output_positions(self.sized, tile), nested, transform)

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

    sized: SizedShape
    target: CpuTarget
    products: Buffer
    image: Buffer
    epilogue: VectorEpilogue
    channel_block: int
    width: int

    @property
    def shape(self) -> ConvolutionShape:
        return self.sized.shape

    def emit_block(self, block: TileBlock, first_channel: Index) -> None:
        """Emits the transforms of the rows of `products`, the channels from `first_channel` on."""
        recipes = [each.output for each in self.shape.decomposition.transforms]
        nested = _nested(self.shape, recipes, self.width, self.products.element, self.target)
        if self.shape.output_channels_first:
            self._emit_strips(nested.inside, block, first_channel)
            return
        writer = ChannelsLastWriter(self.shape, self.image, self.epilogue)
        with block.rows() as (row, tile):
            positions = output_positions(self.sized, tile)
            _for_positions(
                positions,
                lambda: self._transform(nested.inside, row, first_channel, writer.inside(tile, positions)),
                lambda: self._transform(
                    nested.on_the_edge, row, first_channel, writer.on_the_edge(tile, positions)
                ),
            )

    def emit_fetch(self, tile: Tile, first_channel: Index) -> None:
        """Emits the fetching of what `emit_block` writes of a tile, channels last, and reads beside."""
        writer = ChannelsLastWriter(self.shape, self.image, self.epilogue)
        writer.fetch(tile, output_positions(self.sized, tile), first_channel, self.channel_block)

    def _transform(self, nested: Nested, row: Index, first_channel: Index, store_tile: StoreTile) -> None:
        def transform_vector(k: Index) -> None:
            nested(self._load(row, k), store_tile(first_channel + k))

        for_each_vector(self.channel_block, self.width, transform_vector, "k")

    def _emit_strips(self, nested: Nested, block: TileBlock, first_channel: Index) -> None:
        writer = ChannelsFirstWriter.of(self.sized, self.image, self.epilogue, self.width)

        def transform_vector(k: Index) -> None:
            with (
                block.strips(output_strip(self.shape).tiles) as strip,
                writer.storing(strip, first_channel + k) as store_tile,
                loop(strip.end - strip.begin, name="row") as i,
            ):
                row = strip.begin + i
                nested(self._load(row, k), store_tile(row))

        for_each_vector(self.channel_block, self.width, transform_vector, "k")

    def _load(self, row: Index, k: Index) -> Load:
        """Loads a vector of each product of a tile."""
        products, alpha = self.products, self.shape.decomposition.alpha
        first = products.offset([0, row, k])
        return lambda element: products.load(
            first + flattened(element, alpha) * products.stride(0), self.width
        )


def _for_tile(
    reader: ChannelsLastReader,
    tile: Tile,
    positions: list[Positions],
    nested: NestedTransforms,
    transform: Callable[[Nested, LoadTile], None],
) -> None:
    """Emits `transform` with what transforms and loads a tile that lies at `positions`."""
    _for_positions(
        positions,
        lambda: transform(nested.inside, reader.inside(tile, positions)),
        lambda: transform(nested.on_the_edge, reader.on_the_edge(tile, positions)),
    )


def _for_positions(
    positions: list[Positions], inside: Callable[[], None], on_the_edge: Callable[[], None]
) -> None:
    """Emits `inside` for tiles all of whose positions exist, `on_the_edge` for the others."""
    if any(dimension.never_inside for dimension in positions):
        on_the_edge()
    else:
        when(all_inside(positions), inside, on_the_edge)


def _nested(
    shape: ConvolutionShape,
    recipes: Sequence[Recipe],
    width: int,
    element: ir.Type,
    target: CpuTarget,
    instructions_per_load: int = 1,
) -> NestedTransforms:
    """Applies the recipes to a tile: straight-line code if it fits in registers, else loops.

    Of many tiles those inside of the image are transformed in parts that fit.
    """
    fused, registers = target.fused_multiply_add, target.vector_registers
    parts = register_parts(tuple(recipes), registers, instructions_per_load)
    in_parts = None if parts is None else partial(emit_in_parts, recipes, parts, fused_multiply_add=fused)
    if in_parts is not None and prod(recipe.inputs for recipe in recipes) <= registers:
        return NestedTransforms(in_parts, in_parts)
    temporaries = [
        scratch((*extents, width), element, "partly_transformed_tile") for extents in extents_between(recipes)
    ]
    in_loops = partial(emit_rolled, recipes, fused_multiply_add=fused, temporaries=temporaries)
    are_many = (shape.tiles or prod(shape.tiles_per_image)) >= MANY_TILES
    return NestedTransforms(in_parts if in_parts is not None and are_many else in_loops, in_loops)
