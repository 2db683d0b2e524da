"""Input and output transforms on the CPU: a tile at a time, vectors along the channels."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from iree.winograd.dialect.algebra.recipe import Recipe
from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.convolution import ConvolutionShape
from iree.winograd.pipelines.emit import Buffer, Index, for_each_vector, loop, vector_width_for, when
from iree.winograd.pipelines.emit_recipe import emit_nested
from iree.winograd.pipelines.tiles import (
    Positions,
    Tile,
    all_inside,
    clamped_elements,
    input_positions,
    output_positions,
)

from .target import CpuTarget

Epilogue = Callable[[ir.Value, Index, tuple[Index, ...], Index], ir.Value]
"""From (accumulated vector, image, spatial position, first channel) to the finished vector."""


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
    """tiles[row, a, column] = (B^T d)[a] for each group, view and channel of one tile, in this order of columns.

    `image` is N x H... x C, `tiles` is tile_block x A x (groups * views * C/groups, padded). Tiles inside of the image read their elements
    at known distances from the first; the others read each element on condition that it exists.
    """
    channels = shape.input_channels // shape.groups
    width = vector_width_for(channels, target.vector_width)
    alpha = shape.decomposition.alpha
    tile_step = shape.decomposition.output_tile[-1]
    for number, view in enumerate(shape.decomposition.views):
        positions = input_positions(shape, tile, view)
        column = number * channels

        def transform(
            load: Callable[[tuple[int, ...], Index], ir.Value], column: int = column
        ) -> None:
            def transform_vector(group: Index, c: Index) -> None:
                elements = {e: load(e, group * channels + c) for e in product(*map(range, alpha))}
                transformed = emit_nested(recipes, elements, target.fused_multiply_add)
                first = tiles.offset([row, 0, group * shape.reduction + c]) + column
                for a, element in enumerate(product(*map(range, alpha))):
                    tiles.store(transformed[element], first + a * tiles.stride(1))

            with loop(shape.groups, name="group") as group:
                for_each_vector(channels, width, lambda c: transform_vector(group, c), "c")

        def inside(positions: list[Positions] = positions) -> None:
            origin = image.offset([tile.image, *(dimension.first for dimension in positions), 0])
            new_columns = range(alpha[-1] - tile_step, alpha[-1])
            to_next_tile = tile_step * shape.decomposition.step[-1] * image.stride(-2)

            def load(element: tuple[int, ...], c: Index) -> ir.Value:
                position = origin + c + _distance(image, positions, element)
                if element[-1] in new_columns:
                    image.prefetch(position + to_next_tile)
                return image.load(position, width)

            transform(load)

        def on_the_edge(positions: list[Positions] = positions) -> None:
            elements = {
                element: (image.offset([tile.image, *position, 0]), exists)
                for element, (position, exists) in clamped_elements(positions).items()
            }
            transform(lambda element, c: image.load(elements[element][0] + c, width, elements[element][1]))

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
    epilogue: Epilogue,
    channel_block: int,
    width: int,
    target: CpuTarget,
) -> None:
    """image[n, o..., k] = epilogue((A^T M)[o, k]) for one tile and `channel_block` channels from `first_channel` on.

    `products` is A x tile_block x channel_block, `image` is N x OH... x K.
    """
    alpha = shape.decomposition.alpha
    positions = output_positions(shape, tile)

    def transform(
        store: Callable[[tuple[int, ...], ir.Value, Index], None],
    ) -> None:
        def transform_vector(k: Index) -> None:
            first = products.offset([0, row, k])
            elements = {
                element: products.load(first + a * products.stride(0), width)
                for a, element in enumerate(product(*map(range, alpha)))
            }
            outputs = emit_nested(recipes, elements, target.fused_multiply_add)
            for element, value in outputs.items():
                store(element, value, first_channel + k)

        for_each_vector(channel_block, width, transform_vector, "k")

    def inside() -> None:
        origin = image.offset([tile.image, *(dimension.first for dimension in positions), 0])

        def store(element: tuple[int, ...], value: ir.Value, k: Index) -> None:
            position = tuple(
                dimension.first + i * dimension.spacing for dimension, i in zip(positions, element, strict=True)
            )
            finished = epilogue(value, tile.image, position, k)
            image.store(finished, origin + k + _distance(image, positions, element))

        transform(store)

    def on_the_edge() -> None:
        elements = clamped_elements(positions)

        def store(element: tuple[int, ...], value: ir.Value, k: Index) -> None:
            # A position that doesn't exist was moved to one that does, where the epilogue may read.
            position, exists = elements[element]
            finished = epilogue(value, tile.image, position, k)
            image.store(finished, image.offset([tile.image, *position, 0]) + k, exists)

        transform(store)

    if any(dimension.never_inside for dimension in positions):
        on_the_edge()
    else:
        when(all_inside(positions), inside, on_the_edge)


def _distance(image: Buffer, positions: list[Positions], element: tuple[int, ...]) -> int:
    """Elements from a tile's first element to another one, both inside of the image."""
    return sum(
        i * dimension.spacing * image.stride(1 + d)
        for d, (i, dimension) in enumerate(zip(element, positions, strict=True))
    )
