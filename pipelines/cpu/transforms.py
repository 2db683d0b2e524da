"""Input and output transforms on the CPU: a tile at a time, vectors along the channels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

from iree.winograd.dialect.algebra.recipe import Recipe
from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.emission.epilogue import VectorEpilogue
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
    clamped_element,
    input_positions,
    output_positions,
)
from iree.winograd.pipelines.emission.vocabulary import (
    Buffer,
    Index,
    for_each_vector,
    loop,
    named,
    scratch,
    vector_width_for,
    when,
)
from iree.winograd.pipelines.specification.shape import ConvolutionShape

from .target import CpuTarget

LoadVector = Callable[[Position, Index], ir.Value]
"""From an element of a tile and a channel to the vector of it from that channel on."""
StoreVector = Callable[[Position, ir.Value, Index], None]
Nested = Callable[[Load, Store], None]
"""Emits the transform of a tile of vectors, all dimensions of it."""


@dataclass(frozen=True)
class InputTransform:
    """tiles[row, a, column] = (B^T d)[a] for one tile, columns in the order of group, view and channel.

    `image` is N x H... x C, `tiles` is tile_block x A x (groups * views * C/groups, padded). Tiles inside of
    the image read their elements at known distances from the first; the others read each element on condition
    that it exists.
    """

    shape: ConvolutionShape
    target: CpuTarget
    image: Buffer
    tiles: Buffer

    def emit(self, tile: Tile, row: Index) -> None:
        """Emits the transform of one tile to a row of `tiles`."""
        recipes = [each.input for each in self.shape.decomposition.transforms]
        nested = _nested(recipes, self._width, self.tiles.element, self.target)
        for number in range(self.shape.decomposition.view_count):
            self._transform_view(nested, tile, row, number)

    def _transform_view(self, nested: Nested, tile: Tile, row: Index, number: int) -> None:
        positions = input_positions(self.shape, tile, self.shape.decomposition.views[number])
        column = number * self.shape.group_inputs
        _for_positions(
            positions,
            lambda: self._transform(nested, self._loads_inside(tile, positions), row, column),
            lambda: self._transform(nested, partial(self._load_if_it_exists, tile, positions), row, column),
        )

    def _transform(self, nested: Nested, load: LoadVector, row: Index, column: int) -> None:
        """Transforms the vectors of one view, which begins at `column` of each group."""
        shape, tiles = self.shape, self.tiles

        def transform_vector(group: Index, c: Index) -> None:
            first = tiles.offset([row, 0, group * shape.reduction + c]) + column
            nested(
                lambda element: load(element, group * shape.group_inputs + c),
                partial(self._store, first),
            )

        with loop(shape.groups, name="group") as group:
            for_each_vector(shape.group_inputs, self._width, partial(transform_vector, group), "c")

    def _store(self, first: Index, element: Position, value: ir.Value) -> None:
        number = flattened(element, self.shape.decomposition.alpha)
        self.tiles.store(value, first + number * self.tiles.stride(1))

    def _loads_inside(self, tile: Tile, positions: list[Positions]) -> LoadVector:
        """Loads at known distances from the first element, each with that of the next tile fetched."""
        image, decomposition = self.image, self.shape.decomposition
        with named("tile_origin"):
            origin = image.offset([tile.image, *(dimension.first for dimension in positions), 0])
        to_next_tile = decomposition.output_tile[-1] * decomposition.step[-1] * image.stride(-2)

        def load(element: Position, c: Index) -> ir.Value:
            position = origin + c + _distance(image, positions, element)
            image.prefetch(position + to_next_tile)
            with named("element"):
                return image.load(position, self._width)

        return load

    def _load_if_it_exists(
        self, tile: Tile, positions: list[Positions], element: Position, c: Index
    ) -> ir.Value:
        position, exists = clamped_element(positions, element)
        offset = self.image.offset([tile.image, *position, 0]) + c
        with named("element"):
            return self.image.load(offset, self._width, exists)

    @property
    def _width(self) -> int:
        return vector_width_for(self.shape.group_inputs, self.target.vector_width)


@dataclass(frozen=True)
class OutputTransform:
    """image[n, o..., k] = epilogue((A^T M)[o, k]) for one tile and `channel_block` channels.

    `products` is A x tile_block x channel_block, `image` is N x OH... x K.
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
        _for_positions(
            positions,
            lambda: self._transform(nested, row, first_channel, self._stores_inside(tile, positions)),
            lambda: self._transform(
                nested, row, first_channel, partial(self._store_if_it_exists, tile, positions)
            ),
        )

    def _transform(self, nested: Nested, row: Index, first_channel: Index, store: StoreVector) -> None:
        products, alpha = self.products, self.shape.decomposition.alpha

        def transform_vector(k: Index) -> None:
            first = products.offset([0, row, k])
            nested(
                lambda element: products.load(
                    first + flattened(element, alpha) * products.stride(0), self.width
                ),
                lambda element, value: store(element, value, first_channel + k),
            )

        for_each_vector(self.channel_block, self.width, transform_vector, "k")

    def _stores_inside(self, tile: Tile, positions: list[Positions]) -> StoreVector:
        """Stores at known distances from the first element, each with that of the next tile fetched."""
        image, epilogue = self.image, self.epilogue
        with named("tile_origin"):
            origin = image.offset([tile.image, *(dimension.first for dimension in positions), 0])
        tile_width = self.shape.decomposition.output_tile[-1] * positions[-1].spacing

        def store(element: Position, value: ir.Value, k: Index) -> None:
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

    def _store_if_it_exists(
        self, tile: Tile, positions: list[Positions], element: Position, value: ir.Value, k: Index
    ) -> None:
        # A position that doesn't exist is moved to one that does, where the epilogue may read.
        position, exists = clamped_element(positions, element)
        with named("output"):
            finished = self.epilogue.emit(value, tile.image, position, k)
        self.image.store(finished, self.image.offset([tile.image, *position, 0]) + k, exists)


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


def _distance(image: Buffer, positions: list[Positions], element: Position) -> Index:
    """Elements from a tile's first element to another one, both inside of the image."""
    distance = Index(0)
    for d, (i, dimension) in enumerate(zip(element, positions, strict=True)):
        distance = distance + i * (dimension.spacing * image.stride(1 + d))
    return distance
