"""Input and output transforms on the CPU: a tile at a time, vectors along the channels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    scratch,
    vector_width_for,
    when,
)
from iree.winograd.pipelines.specification.shape import ConvolutionShape

from .target import CpuTarget


def emit_input_transform(
    image: Buffer,
    tiles: Buffer,
    tile: Tile,
    row: Index,
    *,
    shape: ConvolutionShape,
    recipes: list[Recipe],
    target: CpuTarget,
) -> None:
    """tiles[row, a, column] = (B^T d)[a] for each group, view and channel of one tile, in this order of
    columns.

    `image` is N x H... x C, `tiles` is tile_block x A x (groups * views * C/groups, padded). Tiles inside of
    the image read their elements at known distances from the first; the others read each element on condition
    that it exists.
    """
    channels = shape.group_inputs
    width = vector_width_for(channels, target.vector_width)
    alpha = shape.decomposition.alpha
    nested = _nested(recipes, width, target)
    for number, view in enumerate(shape.decomposition.views):
        positions = input_positions(shape, tile, view)
        column = number * channels

        def transform(load: Callable[[Position, Index], ir.Value], column: int = column) -> None:
            with loop(shape.groups, name="group") as group:

                def transform_vector(c: Index) -> None:
                    first = tiles.offset([row, 0, group * shape.reduction + c]) + column

                    def store(element: Position, value: ir.Value) -> None:
                        tiles.store(value, first + flattened(element, alpha) * tiles.stride(1))

                    nested(lambda element: load(element, group * channels + c), store)

                for_each_vector(channels, width, transform_vector, "c")

        def inside(positions: list[Positions] = positions) -> None:
            origin = image.offset([tile.image, *(dimension.first for dimension in positions), 0])
            to_next_tile = (
                shape.decomposition.output_tile[-1] * shape.decomposition.step[-1] * image.stride(-2)
            )

            def load(element: Position, c: Index) -> ir.Value:
                position = origin + c + _distance(image, positions, element)
                image.prefetch(position + to_next_tile)
                return image.load(position, width)

            transform(load)

        def on_the_edge(positions: list[Positions] = positions) -> None:
            def load(element: Position, c: Index) -> ir.Value:
                position, exists = clamped_element(positions, element)
                return image.load(image.offset([tile.image, *position, 0]) + c, width, exists)

            transform(load)

        if any(dimension.never_inside for dimension in positions):
            on_the_edge()
        else:
            when(all_inside(positions), inside, on_the_edge)


def emit_output_transform(
    products: Buffer,
    image: Buffer,
    tile: Tile,
    row: Index,
    first_channel: Index,
    *,
    shape: ConvolutionShape,
    recipes: list[Recipe],
    epilogue: VectorEpilogue,
    channel_block: int,
    width: int,
    target: CpuTarget,
) -> None:
    """image[n, o..., k] = epilogue((A^T M)[o, k]) for one tile and `channel_block` channels from
    `first_channel` on.

    `products` is A x tile_block x channel_block, `image` is N x OH... x K.
    """
    alpha = shape.decomposition.alpha
    positions = output_positions(shape, tile)
    nested = _nested(recipes, width, target)

    def transform(store: Callable[[Position, ir.Value, Index], None]) -> None:
        def transform_vector(k: Index) -> None:
            first = products.offset([0, row, k])
            nested(
                lambda element: products.load(first + flattened(element, alpha) * products.stride(0), width),
                lambda element, value: store(element, value, first_channel + k),
            )

        for_each_vector(channel_block, width, transform_vector, "k")

    def inside() -> None:
        origin = image.offset([tile.image, *(dimension.first for dimension in positions), 0])

        def store(element: Position, value: ir.Value, k: Index) -> None:
            position = tuple(
                dimension.first + i * dimension.spacing
                for dimension, i in zip(positions, element, strict=True)
            )
            offset = origin + k + _distance(image, positions, element)
            image.prefetch(offset + tile_width * image.stride(-2), to_write=True)
            epilogue.prefetch(tile.image, (*position[:-1], position[-1] + tile_width), k)
            image.store(epilogue.emit(value, tile.image, position, k), offset)

        tile_width = shape.decomposition.output_tile[-1] * positions[-1].spacing
        transform(store)

    def on_the_edge() -> None:
        def store(element: Position, value: ir.Value, k: Index) -> None:
            # A position that doesn't exist is moved to one that does, where the epilogue may read.
            position, exists = clamped_element(positions, element)
            finished = epilogue.emit(value, tile.image, position, k)
            image.store(finished, image.offset([tile.image, *position, 0]) + k, exists)

        transform(store)

    if any(dimension.never_inside for dimension in positions):
        on_the_edge()
    else:
        when(all_inside(positions), inside, on_the_edge)


def _nested(recipes: Sequence[Recipe], width: int, target: CpuTarget) -> Callable[[Load, Store], None]:
    """Applies the recipes to a tile: straight-line code if it fits in registers, else loops."""
    extents = [recipe.inputs for recipe in recipes]
    if prod(extents) <= target.vector_registers:
        return lambda load, store: emit_unrolled(recipes, load, store, target.fused_multiply_add)
    temporaries = []
    for dimension in range(len(recipes) - 1):
        extents[dimension] = len(recipes[dimension].outputs)
        temporaries.append(scratch((*extents, width), "partly_transformed_tile"))
    return lambda load, store: emit_rolled(recipes, load, store, target.fused_multiply_add, temporaries)


def _distance(image: Buffer, positions: list[Positions], element: Position) -> Index:
    """Elements from a tile's first element to another one, both inside of the image."""
    distance = Index(0)
    for d, (i, dimension) in enumerate(zip(element, positions, strict=True)):
        distance = distance + i * (dimension.spacing * image.stride(1 + d))
    return distance
