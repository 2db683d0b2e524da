"""Where tiles lie: from a tile's number to image, output and input positions, and which of them exist."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .index import Condition, Index, IndexLike, all_of, divided, kept_where
from .sized_shape import SizedShape

TiledShape = ConvolutionShape | SizedShape
"""A convolution whose tiles are to be found, with its sizes unless it knows them."""


@dataclass(frozen=True)
class Tile:
    """One output tile: its image and, per dimension, its first output."""

    image: Index
    first_output: tuple[Index, ...]


def locate_tile(shape: TiledShape, number: Index, *, is_beside_others: bool = False) -> Tile:
    """The tile with this number: row-major over (image, tile per dimension), phase-major within one.

    Where it `is_beside_others` that are located in the same block of operations, all are divided once.
    """
    shape = _sized(shape)
    decomposition = shape.decomposition
    coordinates = []
    for dimension, tiles in reversed(list(enumerate(shape.tiles_per_image))):
        if _is_outermost(shape, dimension):
            # A division by a size that is known only at run time takes as long as a few loads.
            coordinates.append(number)
            number = Index(0)
        elif is_beside_others:
            number, coordinate = divided(number, tiles)
            coordinates.append(coordinate)
        else:
            coordinates.append(number % tiles)
            number = number // tiles
    first_output = tuple(
        # Divisions by one phase of unknown size aren't seen to be of no use.
        coordinate * m
        if phases == 1 and per_phase.known is None
        else coordinate // per_phase + (coordinate % per_phase) * (m * phases)
        for coordinate, per_phase, m, phases in zip(
            reversed(coordinates),
            shape.tiles_per_phase,
            decomposition.output_tile,
            decomposition.phases,
            strict=True,
        )
    )
    return Tile(number, first_output)


@dataclass(frozen=True)
class Positions:
    """The positions of a tile's elements along one dimension, and whether each exists.

    `first` plus a multiple of `spacing` is where an element lies; positions outside of `[0, size)` don't
    exist.
    """

    first: Index
    spacing: int
    count: int
    size: IndexLike
    lowest_first: int
    highest_first: int | None
    """None where it depends on sizes that are known only at run time."""
    fits: bool = False
    """Whether the last tile ends inside, whatever the size is."""

    @property
    def always_inside(self) -> bool:
        return self.lowest_first >= 0 and self._ends_inside(self.count - 1)

    @property
    def never_inside(self) -> bool:
        """Whether no tile of this convolution lies inside as a whole."""
        return self.lowest_first == self.highest_first and not self.always_inside

    def _ends_inside(self, element: int) -> bool:
        """Whether this element of every tile is known not to be past the last one that exists."""
        if self.fits:
            return True
        size = Index.of(self.size).known
        if size is None or self.highest_first is None:
            return False
        return self.highest_first + element * self.spacing < size

    def inside(self) -> Condition:
        """Whether all of the elements exist."""
        if self.always_inside:
            return Condition(True)
        last = self.first + (self.count - 1) * self.spacing
        low = Condition(True) if self.lowest_first >= 0 else self.first.at_least(0)
        high = Condition(True) if self._ends_inside(self.count - 1) else last.less_than(self.size)
        return low & high

    def clamped(self, element: Index) -> tuple[Index, Condition]:
        """The position of an element, moved into the range if need be, and whether it exists there."""
        position = self.first + element * self.spacing
        least, most = (0, self.count - 1) if element.known is None else (element.known, element.known)
        if self.lowest_first + least * self.spacing >= 0 and self._ends_inside(most):
            return position, Condition(True)
        exists = position.within(self.size)
        return kept_where(exists, position), exists


def input_positions(shape: TiledShape, tile: Tile, view: Sequence[IndexLike]) -> list[Positions]:
    """Where the input elements of one of the decomposition's views of a tile lie, per dimension."""
    shape = _sized(shape)
    decomposition = shape.decomposition
    last_tiles = _last_first_outputs(shape)
    positions = []
    for d, offset in enumerate(map(Index.of, view)):
        offsets = [each[d] for each in decomposition.views] if offset.known is None else [offset.known]
        positions.append(
            Positions(
                first=tile.first_output[d] * decomposition.step[d] + (offset - shape.padding_low[d]),
                spacing=decomposition.spacing[d],
                count=decomposition.alpha[d],
                size=shape.input_size[d],
                lowest_first=min(offsets) - shape.padding_low[d],
                highest_first=None
                if (last := last_tiles[d]) is None
                else last * decomposition.step[d] + max(offsets) - shape.padding_low[d],
                fits=_fits(shape, d),
            )
        )
    return positions


def output_positions(shape: TiledShape, tile: Tile) -> list[Positions]:
    """Where the outputs of a tile lie, per dimension."""
    shape = _sized(shape)
    decomposition = shape.decomposition
    last_tiles = _last_first_outputs(shape)
    return [
        Positions(
            first=tile.first_output[d],
            spacing=decomposition.phases[d],
            count=decomposition.output_tile[d],
            size=shape.output_size[d],
            lowest_first=0,
            highest_first=last_tiles[d],
        )
        for d in range(len(shape.output_size))
    ]


def all_inside(positions: list[Positions]) -> Condition:
    return all_of([dimension.inside() for dimension in positions])


def clamped_element(
    positions: list[Positions], element: tuple[Index, ...]
) -> tuple[tuple[Index, ...], Condition]:
    """The position of a tile's element, moved into the array if need be, and whether it exists there."""
    clamped = [dimension.clamped(i) for dimension, i in zip(positions, element, strict=True)]
    return tuple(position for position, _ in clamped), all_of([exists for _, exists in clamped])


def line_exists(positions: list[Positions], rest: tuple[Index, ...], dimension: int) -> Condition:
    """Whether a line of a tile's elements along a dimension does, by its place in the others."""
    others = [*positions[:dimension], *positions[dimension + 1 :]]
    return clamped_element(others, rest)[1]


def clamped_on_line(
    positions: list[Positions], element: tuple[Index, ...], dimension: int
) -> tuple[tuple[Index, ...], Condition]:
    """As `clamped_element`, of a line along a dimension that exists."""
    position = [each.first + i * each.spacing for each, i in zip(positions, element, strict=True)]
    position[dimension], exists = positions[dimension].clamped(element[dimension])
    return tuple(position), exists


def _sized(shape: TiledShape) -> SizedShape:
    return SizedShape.of(shape) if isinstance(shape, ConvolutionShape) else shape


def _fits(shape: SizedShape, dimension: int) -> bool:
    """Whether what outputs read is inside of an image of unknown size: as many are there as it has."""
    convolution, decomposition = shape.shape, shape.decomposition
    if dimension not in convolution.unknown_sizes or decomposition.alpha[dimension] != 1:
        return False
    return convolution.padding_low[dimension] == convolution.padding_high[dimension] == 0


def _is_outermost(shape: SizedShape, dimension: int) -> bool:
    """Whether tiles differ in nothing outside of this dimension: there is one image."""
    return shape.is_one_image and all(tiles.known == 1 for tiles in shape.tiles_per_image[:dimension])


def _last_first_outputs(shape: SizedShape) -> list[int | None]:
    """Per dimension, the largest first output of any tile, if it is known."""
    decomposition = shape.decomposition
    return [
        None if (known := per_phase.known) is None else (phases - 1) + (known - 1) * m * phases
        for phases, per_phase, m in zip(
            decomposition.phases, shape.tiles_per_phase, decomposition.output_tile, strict=True
        )
    ]
